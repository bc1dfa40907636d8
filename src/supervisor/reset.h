/*
 * The state that a process inherits from whoever started it, put back to a known one, so that every
 * command starts the same way under every host.
 */
#ifndef CV_SUPERVISOR_RESET_H
#define CV_SUPERVISOR_RESET_H

#include <stdbool.h>
#include <sys/resource.h>

/*
 * Resets this process: not dumpable, every signal at its default disposition and blocked, umask
 * 022, root as the working directory, default timer slack, a session of its own, subreaper of what
 * it starts, standard streams on /dev/null, no descriptor from `first` up, the limit of open files
 * raised to the hard one. `*inherited` gets the limit of open files that the commands must see.
 *
 * Commands inherit all of it but the blocked signals and the file limit, which spawn.c undoes. Nice
 * value, oom_score_adj, affinity and hard limits stay as the host set them. Returns false when
 * /dev/null can't be opened.
 */
bool cv_reset_process(int first, struct rlimit *inherited);

/* What fork(2) does not pass on: subreaper (prctl(2)) and, by execve only, dumpable. */
void cv_reset_forked(void);

#endif
