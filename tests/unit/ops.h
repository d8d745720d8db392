/* SPDX-License-Identifier: MIT */
/*
 * A program made of bytes: settings, then operations on the cache over the fake driver. After each
 * operation the walker and the referee are asked, and the answers are compared with a plain model
 * of what the program holds.
 */
#ifndef CM_TESTS_UNIT_OPS_H
#define CM_TESTS_UNIT_OPS_H

#include <stddef.h>
#include <stdint.h>

#define OPS_WHY_BYTES 256

/* 0, or -1 with a sentence in `why`. At most 4096 operations are done. */
int ops_run(const uint8_t *data, size_t size, char why[OPS_WHY_BYTES]);

#endif
