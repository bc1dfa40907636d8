/*
 * Lets one allocation of src/ fail, the one of a number, in builds with CHAMVI_SANITIZE or
 * CHAMVI_FUZZ. A process can also be told by its environment: CHAMVI_TORTURE_FAIL is the number,
 * counted from the start. The file CHAMVI_TORTURE_COUNT gets how many there were, and behind it,
 * one a line, the number of the first one on each path of calls.
 */
#ifndef CV_SPEC_TORTURE_H
#define CV_SPEC_TORTURE_H

#include <stdbool.h>

/* From now on the allocation number `nth`, counted from 1, fails once; 0: none. */
void torture_fail(unsigned long nth);
/* Held, allocations neither count nor fail: for what a test itself does in between. */
void torture_hold(bool held);
/* The allocations since then. */
unsigned long torture_count(void);
/* Whether the chosen one was reached. */
bool torture_struck(void);

#endif
