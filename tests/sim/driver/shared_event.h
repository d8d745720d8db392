/* SPDX-License-Identifier: MIT */
/*
 * The part of an event that other processes know: a row in a memory file of the process that gave
 * out the handle, mapped by those that opened it. Each record, in whatever process, takes the next
 * number; the row says which numbers are complete. A number counts as complete, too, once the 60th
 * one after it is. Caller locks.
 */
#ifndef CM_SIM_SHARED_EVENT_H
#define CM_SIM_SHARED_EVENT_H

#include "call.h"

/* Counted: the event holds a reference, and so does each piece of work that is to complete it. */
struct sim_shared_event;

/* A row of this process, or NULL. */
struct sim_shared_event *sim_shared_event_create(void);
/* True if the handle was given out by this process, which can't open it. */
bool sim_shared_event_is_own(const CUipcEventHandle *handle);
/* The row of another process, or NULL if the handle means none that still is. */
struct sim_shared_event *sim_shared_event_open(const CUipcEventHandle *handle);
/* Only of a row of this process. */
void sim_shared_event_describe(const struct sim_shared_event *shared, CUipcEventHandle *ret_handle);

struct sim_shared_event *sim_shared_event_ref(struct sim_shared_event *shared);
void sim_shared_event_unref(struct sim_shared_event *shared); /* NULL: nothing */

/* The number of a new record. */
uint64_t sim_shared_event_record(struct sim_shared_event *shared);
/* The number of the last record; 0: there is none. */
uint64_t sim_shared_event_last(const struct sim_shared_event *shared);
void sim_shared_event_complete(struct sim_shared_event *shared, uint64_t number);
bool sim_shared_event_is_complete(const struct sim_shared_event *shared, uint64_t number);

#endif
