/* SPDX-License-Identifier: MIT */
#include "tools/watch/figures.h"

#include "stats/counters.h"
#include "stats/summary.h"

void cm_figures_read(const struct cm_device_row *row, int64_t ret_figure[CM_FIGURE_COUNT])
{
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);
	const int64_t *scalar = row->scalar;
	const int64_t asked = cm_wrap_add(scalar[CM_SCALAR_cache_hits],
					  scalar[CM_SCALAR_cache_misses]);

	ret_figure[CM_FIGURE_FREES] = sum.frees;
	ret_figure[CM_FIGURE_ALLOCATED] = sum.allocated;
	ret_figure[CM_FIGURE_BLOCKS] = sum.blocks;
	ret_figure[CM_FIGURE_PENDING] = sum.pending;
	ret_figure[CM_FIGURE_ROUNDING] = sum.rounding;
	ret_figure[CM_FIGURE_RELEASABLE] = sum.releasable;
	ret_figure[CM_FIGURE_WAIT_NS] = scalar[CM_SCALAR_wait_ns];
	ret_figure[CM_FIGURE_MISSES] = scalar[CM_SCALAR_cache_misses];
	ret_figure[CM_FIGURE_RESERVED] = sum.reserved;
	ret_figure[CM_FIGURE_SEGMENTS_BEYOND] = cm_wrap_sub(
		sum.segments,
		cm_wrap_sub(scalar[CM_SCALAR_num_device_alloc], scalar[CM_SCALAR_num_device_free]));
	ret_figure[CM_FIGURE_PEAK_ALLOCATED] = sum.peak_allocated;
	ret_figure[CM_FIGURE_PEAK_RESERVED] = sum.peak_reserved;
	ret_figure[CM_FIGURE_DRIVER_ALLOCS_BEYOND] = cm_wrap_sub(scalar[CM_SCALAR_num_device_alloc],
								 scalar[CM_SCALAR_cache_misses]);
	ret_figure[CM_FIGURE_DRIVER_FREES] = scalar[CM_SCALAR_num_device_free];
	ret_figure[CM_FIGURE_UNCACHED] = cm_summary_other(row);
	ret_figure[CM_FIGURE_OOMS] = scalar[CM_SCALAR_num_ooms];
	ret_figure[CM_FIGURE_RETRIES] = scalar[CM_SCALAR_num_alloc_retries];
	ret_figure[CM_FIGURE_DECAYED] = scalar[CM_SCALAR_decay_bytes];
	ret_figure[CM_FIGURE_GIVEN] = scalar[CM_SCALAR_peer_bytes_given];
	ret_figure[CM_FIGURE_GOT] = scalar[CM_SCALAR_peer_bytes_got];
	ret_figure[CM_FIGURE_BASE] = cm_wrap_sub(cm_wrap_add(sum.blocks, sum.frees), sum.allocs);
	ret_figure[CM_FIGURE_HITS_BEYOND] = cm_wrap_sub(asked, sum.allocs);
	ret_figure[CM_FIGURE_TORN] = 0;
}

/* A family of which only the sum over the pools is known stands in the large one. */
static void write_families(const int64_t figure[CM_FIGURE_COUNT], struct cm_device_row *row)
{
	struct cm_stat_pool *to = &row->stat[CM_POOL_LARGE], *all = &row->stat[CM_POOL_ALL];
	const int64_t active = cm_wrap_add(figure[CM_FIGURE_ALLOCATED], figure[CM_FIGURE_PENDING]);
	const int64_t used = cm_wrap_add(active, figure[CM_FIGURE_RELEASABLE]);

	to->current[CM_STAT_ALLOCATION] = figure[CM_FIGURE_BLOCKS];
	to->freed[CM_STAT_ALLOCATION] = figure[CM_FIGURE_FREES];
	to->base[CM_STAT_ALLOCATION] = figure[CM_FIGURE_BASE];
	to->current[CM_STAT_ALLOCATED_BYTES] = figure[CM_FIGURE_ALLOCATED];
	to->current[CM_STAT_ACTIVE_BYTES] = active;
	to->current[CM_STAT_REQUESTED_BYTES] = cm_wrap_sub(active, figure[CM_FIGURE_ROUNDING]);
	to->current[CM_STAT_RESERVED_BYTES] = figure[CM_FIGURE_RESERVED];
	to->current[CM_STAT_INACTIVE_SPLIT_BYTES] = cm_wrap_sub(figure[CM_FIGURE_RESERVED], used);
	all->peak[CM_STAT_ALLOCATED_BYTES] = figure[CM_FIGURE_PEAK_ALLOCATED];
	all->peak[CM_STAT_RESERVED_BYTES] = figure[CM_FIGURE_PEAK_RESERVED];
}

void cm_figures_write(const int64_t figure[CM_FIGURE_COUNT], struct cm_device_row *ret_row)
{
	int64_t *scalar = ret_row->scalar;
	int64_t allocs;

	write_families(figure, ret_row);
	allocs = cm_stat_read(ret_row, CM_POOL_ALL, CM_STAT_ALLOCATION).allocated;
	scalar[CM_SCALAR_cache_misses] = figure[CM_FIGURE_MISSES];
	scalar[CM_SCALAR_cache_hits] = cm_wrap_sub(
		cm_wrap_add(allocs, figure[CM_FIGURE_HITS_BEYOND]), figure[CM_FIGURE_MISSES]);
	scalar[CM_SCALAR_wait_ns] = figure[CM_FIGURE_WAIT_NS];
	scalar[CM_SCALAR_num_device_alloc] = cm_wrap_add(figure[CM_FIGURE_DRIVER_ALLOCS_BEYOND],
							 figure[CM_FIGURE_MISSES]);
	scalar[CM_SCALAR_num_device_free] = figure[CM_FIGURE_DRIVER_FREES];
	ret_row->stat[CM_POOL_LARGE].current[CM_STAT_SEGMENT] = cm_wrap_add(
		figure[CM_FIGURE_SEGMENTS_BEYOND],
		cm_wrap_sub(scalar[CM_SCALAR_num_device_alloc], scalar[CM_SCALAR_num_device_free]));
	scalar[CM_SCALAR_num_ooms] = figure[CM_FIGURE_OOMS];
	scalar[CM_SCALAR_num_alloc_retries] = figure[CM_FIGURE_RETRIES];
	scalar[CM_SCALAR_decay_bytes] = figure[CM_FIGURE_DECAYED];
	scalar[CM_SCALAR_peer_bytes_given] = figure[CM_FIGURE_GIVEN];
	scalar[CM_SCALAR_peer_bytes_got] = figure[CM_FIGURE_GOT];
	ret_row->other_bytes[CM_UNCACHED_FORWARDED].current = figure[CM_FIGURE_UNCACHED];
}
