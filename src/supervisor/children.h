/*
 * The direct children of this process, known and adopted ones alike, and how to end them all.
 *
 * Only direct children are ever signalled: they can't be reaped by anyone else, so no recycled
 * process id is hit, and grandchildren fall to this subreaper when their parents die.
 */
#ifndef CV_SUPERVISOR_CHILDREN_H
#define CV_SUPERVISOR_CHILDREN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* Counted up by a supervisor that is busy and alive; watched by its guard. */
typedef atomic_uint cv_beat;

struct cv_children {
    int list; /* /proc/self/task/<tid>/children, or -1 where the kernel lacks it */
};

/*
 * Opens the list of this process; must be called after the last fork. False where there is no /proc
 * of this process's own namespace to find children by: then only known ones could be killed.
 */
bool cv_children_open(struct cv_children *children);

/*
 * Kills and reaps children until none is left (waitid(2) says ECHILD), for at most `limit_ms` of
 * this process's own time: a command that stops it meanwhile gains nothing by that. SIGCHLD must be
 * blocked. Returns how many survived: those that may not be signalled (EPERM) or sleep
 * uninterruptibly.
 */
unsigned cv_children_kill_all(struct cv_children *children, int limit_ms, cv_beat *beat);

/*
 * Kills the process group `group`, whose leader was reaped, if a direct child still belongs to it:
 * that child keeps the number from being recycled.
 */
void cv_children_kill_group(struct cv_children *children, pid_t group);

/*
 * True while the process sleeps where no signal reaches it ("D" in proc(5)), and where that can't
 * be told: `hidepid` hides one that is not dumpable from its own user.
 */
bool cv_process_blocked(pid_t pid);

#endif
