/* SPDX-License-Identifier: MIT */
/*
 * Host functions that are part of a stream's work run on a thread of the driver, never on one of
 * the program's: a program may hold a lock in a driver call that its host function wants. Caller
 * locks.
 */
#ifndef CM_SIM_HOST_CALLS_H
#define CM_SIM_HOST_CALLS_H

#include <stdbool.h>

struct sim_work;

/* Work with a function has been submitted; it is done, or cut off. */
void sim_host_calls_expect(void);
void sim_host_calls_done(void);

/*
 * The same for work that other processes wait for: its time comes, in virtual time as well, while
 * the program calls the driver no more.
 */
void sim_host_calls_expect_post(void);
void sim_host_calls_posted(void);

/* Hands the work's function over; sim_work_called() is called when it has returned. */
void sim_host_calls_add(struct sim_work *work);

/* Some function has been handed over and has not returned. */
bool sim_host_calls_pending(void);

/* At the end of the process: the thread goes, unless a function holds it up. */
void sim_host_calls_stop(void);

#endif
