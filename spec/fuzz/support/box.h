/*
 * A folder that a target goes into as its root directory (chroot(2)) while it handles one input, so
 * that no path of an input, right or wrong, reaches anything else. Without the right to do so in a
 * namespace of its own either, the program ends with status 77.
 */
#ifndef CV_SPEC_FUZZ_BOX_H
#define CV_SPEC_FUZZ_BOX_H

/* Once, before anything else: a program with several threads can't get a namespace any more. */
void box_make(void);
void box_enter(void);
/* Also done by itself before a sanitizer reports, which reads and writes files of the outside. */
void box_leave(void);
/* Deletes all that lies in the box; from outside. */
void box_clear(void);

#endif
