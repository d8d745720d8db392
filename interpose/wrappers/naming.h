/* SPDX-License-Identifier: MIT */
/* Marks the memory that the calls of naming.def name; one function for each form. Thread-safe. */
#ifndef CM_INTERPOSE_WRAPPERS_NAMING_H
#define CM_INTERPOSE_WRAPPERS_NAMING_H

#include <stdint.h>

#include "interpose/symbols/naming.h"

#pragma GCC visibility push(hidden)

/* The row says which arguments are which. These functions wait until the memory is idle; they have
 * no errors. */
void cm_name_range(const struct cm_naming *row, const uint64_t args[6]);
void cm_name_block(const struct cm_naming *row, const uint64_t args[6]);
void cm_name_vectors(const struct cm_naming *row, const uint64_t args[6]);
void cm_name_batch(const struct cm_naming *row, const uint64_t args[6]);
void cm_name_umem(const struct cm_naming *row, const uint64_t args[6]);
void cm_name_all(const struct cm_naming *row, const uint64_t args[6]);

#pragma GCC visibility pop

#endif
