/* SPDX-License-Identifier: MIT */
/*
 * Work submitted to streams of one device that names memory of another one. The hooks tell the
 * cache before and after; otherwise it would reuse that memory while the work is under way
 * (allocator/reuse/reach.h). Programs of one device pay for one test.
 *
 * Thread-safe. Asks the driver only for the context of a stream, which is legal during captures.
 */
#ifndef CM_INTERPOSE_DRIVER_REACH_H
#define CM_INTERPOSE_DRIVER_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/cache.h"
#include "interpose/core/state.h"
#include "interpose/symbols/hooks.h"

/* Whether there is memory of more than one device. */
static inline bool cm_reach_is_watched(void)
{
	const struct cm_cache *cache = cm_process_cache_if_made();

	return cache && cm_cache_has_devices(cache);
}

/* The devices whose memory is named, a bit each: by an address, by an end of a copy in 2D or 3D,
 * and by batches. These and the functions below are called only if cm_reach_is_watched. */
uint64_t cm_reach_of(CUdeviceptr addr);
uint64_t cm_reach_of_box(CUmemorytype type, CUdeviceptr addr);
uint64_t cm_reach_of_list(const CUdeviceptr *list, size_t count);
uint64_t cm_reach_of_boxes(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count);
uint64_t cm_reach_of_unpacked(const CUmemDecompressParams *list, size_t count);
uint64_t cm_reach_of_words(const CUstreamBatchMemOpParams *ops, unsigned int count);

/* Around the submission of such work to the stream, whether the driver takes it or not:
 * cm_cache_begin_reach and cm_cache_end_reach. The first may block for work that a native free
 * would have waited for. */
struct cm_submission cm_reach_begin(CUstream stream, uint64_t named);
void cm_reach_end(struct cm_submission submission);

/* See cm_cache_note_work: for a stream, and for all streams of a context; NULL: of any. */
void cm_reach_note_work(CUstream stream);
void cm_reach_note_work_in(CUcontext ctx);

#endif
