/* SPDX-License-Identifier: MIT */
/*
 * Holds the calling thread up before one of its driver calls, while a second thread does all that
 * it has to do, as far as it does not wait for the first one. Once a process.
 */
#ifndef CM_TESTS_CHECKED_HOLD_UP_H
#define CM_TESTS_CHECKED_HOLD_UP_H

#include <stdint.h>

/* The status of a process whose thread has made fewer calls. */
#define CM_NOT_REACHED 77

/* Before the n-th call from now on (1: the next): `run` on a second thread. */
void cm_hold_up(uint64_t n, void (*run)(void));

/* The calling thread has done all in which it is to be held up. Waits for the second one; if that
 * has not begun, the process ends with CM_NOT_REACHED. */
void cm_hold_up_end(void);

#endif
