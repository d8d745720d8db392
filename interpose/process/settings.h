/* SPDX-License-Identifier: MIT */
/*
 * The settings of the process: reads the options from the environment, fits to the process what
 * they leave open, and turns them into the allocator's policy. Logs what it decides. The start
 * calls it, in one thread, and later the helper thread to change an option.
 */
#ifndef CM_INTERPOSE_PROCESS_SETTINGS_H
#define CM_INTERPOSE_PROCESS_SETTINGS_H

#include <stdint.h>

#include "allocator/base/policy.h"
#include "allocator/cache.h"
#include "stats/config.h"
#include "stats/region.h"

/* Reads the options and sets the log level; logs mistakes in them. */
void cm_settings_read(struct cm_config *config);

/* Decides what the options leave open, in `config` too, and fills the policy. */
void cm_settings_apply(struct cm_config *config, struct cm_policy *ret_policy);

/*
 * Changes an option while the program runs, to a value as it would be typed, and its row in the
 * region. -EINVAL: there is no such option or value; -EOPNOTSUPP: it can't be changed now; -ENOSPC:
 * there is no memory for its row.
 */
int cm_settings_change(struct cm_cache *cache, struct cm_region *region, uint64_t option,
		       const char *value);

/* MiB as bytes; CM_UNLIMITED is UINT64_MAX. */
uint64_t cm_settings_bytes(uint64_t mib);

#endif
