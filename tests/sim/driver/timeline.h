/* SPDX-License-Identifier: MIT */
/*
 * Work whose end is known, in the order of its ends; among equals, of its submission. Holds no
 * references. Caller locks.
 */
#ifndef CM_SIM_TIMELINE_H
#define CM_SIM_TIMELINE_H

#include <stdint.h>

struct sim_work;

/* 0 or -ENOMEM. */
int sim_timeline_add(struct sim_work *work);
/* What ends next, or NULL. */
struct sim_work *sim_timeline_first(void);
void sim_timeline_remove_first(void);
/* Takes one out wherever it is. */
void sim_timeline_remove(const struct sim_work *work);

#endif
