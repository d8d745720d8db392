/* SPDX-License-Identifier: MIT */
/*
 * The ledger of cards that several processes use at once: a file in which each process writes down
 * what it has of each device. What a process had is free when it is gone, however it went, and it
 * is still taken while the process is stopped. Caller locks.
 */
#ifndef CM_SIM_CARD_H
#define CM_SIM_CARD_H

#include <stdbool.h>
#include <stdint.h>

/* Joins the ledger at `path`, which is made where it is not there. 0 or a negative errno. */
int sim_card_join(const char *path);

/*
 * Writes down that this process has `used` bytes of the device from now on, unless all processes
 * together had more than `limit` then. Always true where no ledger was joined.
 */
bool sim_card_enter(int device, uint64_t used, uint64_t limit);

/* The same in all processes that joined the ledger, and a process's own where none was joined. */
uint64_t sim_card_identity(void);

/* What the other processes have of the device. */
uint64_t sim_card_others(int device);

#endif
