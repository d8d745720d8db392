/* SPDX-License-Identifier: MIT */
/*
 * Recorded sequences of requests, as text: "a ID BYTES STREAM THREAD" allocates, "f ID STREAM
 * THREAD" frees, '#' begins a comment, and what stands before the line "# window" was live when the
 * recording began. Requests of 0 bytes are left out: CUDA refuses them.
 */
#ifndef CM_BENCH_TRACE_H
#define CM_BENCH_TRACE_H

#include "sequence.h"

/* 0, or -1 after a message. sequence_free gives it back. */
int trace_read(const char *path, struct sequence *ret_sequence);

/* The most that was requested and live at once. */
uint64_t trace_peak_bytes(const struct sequence *sequence);

#endif
