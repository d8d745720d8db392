/* SPDX-License-Identifier: MIT */
#include "interpose/process/process.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "allocator/base/lock.h"
#include "allocator/base/thread.h"
#include "interpose/core/cancel.h"
#include "interpose/core/log.h"
#include "interpose/core/reached.h"
#include "interpose/core/unusual.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/control.h"
#include "interpose/process/oom_message.h"
#include "interpose/process/oom_wait.h"
#include "interpose/process/peers.h"
#include "interpose/process/settings.h"
#include "interpose/stacks/annotation.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/entry_points.h"
#include "interpose/symbols/hooks.h"
#include "interpose/symbols/real.h"
#include "stats/config.h"
#include "stats/region_sweep.h"
#include "stats/tick.h"

#define WAIT_NS 100000000L /* for another thread's start; then the call is passed on */

#define ERROR_BYTES 80
#define DAY_NS      (UINT64_C(24) * 3600 * CM_NS_PER_S)

enum phase { PHASE_NEW, PHASE_STARTING, PHASE_MADE, PHASE_OFF };

/*
 * Of GLIBC 2.32; weak, since what is built for an older one has to be loaded there too. The first
 * is not translated, so it opens no file in the program.
 */
/* NOLINTNEXTLINE(readability-*) */
extern const char *strerrordesc_np(int error) __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak));

/* The mapped region; survives into a child, which unmaps it. Guarded by PHASE_STARTING. */
static struct cm_region *mapped;

/* Registered by modules above this one. */
static void (*_Atomic fork_handlers[CM_FORK_HANDLERS])(void);

/* In a forked child: gives up the parent's region, thread and heaps, which do not work here. */
static void forget_parent(void)
{
	struct cm_region *region = mapped;
	void (*forget)(void);
	size_t i;

	mapped = NULL;
	cm_entry_points_publish(NULL);
	cm_control_forget();
	cm_capture_forget_all();
	cm_context_forget_all();
	cm_thread_forget();
	cm_record_forget();
	cm_annotation_forget();
	for (i = 0; i < CM_FORK_HANDLERS && (forget = atomic_load(&fork_handlers[i])); i++)
		forget();
	cm_region_abandon(region);
}

static void after_fork(void)
{
	int saved = errno;

	cm_process_clear();
	forget_parent();
	errno = saved;
}

/* Only the region's file is touched: the driver may be gone, and other threads may still
 * allocate. A child that was forked without atfork handlers has another pid, and no region or
 * its parent's. */
static void at_exit(void)
{
	struct cm_region *region = cm_process.region;

	if (!region || region->header->pid != (uint32_t)getpid())
		return;
	cm_control_stop();
	cm_process_stamp();
	cm_region_remove(region);
}

static void watch_forks(void)
{
	static atomic_bool watched;

	if (atomic_load(&watched) || atomic_exchange(&watched, true))
		return;
	(void)pthread_atfork(NULL, NULL, after_fork);
	cm_process_wipe_on_fork();
}

void cm_process_on_fork(void (*forget)(void))
{
	void (*seen)(void);
	size_t i;

	for (i = 0; i < CM_FORK_HANDLERS; i++) {
		seen = atomic_load(&fork_handlers[i]);
		if (seen == forget ||
		    (!seen && atomic_compare_exchange_strong(&fork_handlers[i], &seen, forget)) ||
		    seen == forget)
			break;
	}
	watch_forks();
}

static void register_once(void)
{
	static bool registered;

	if (registered)
		return;
	registered = true;
	watch_forks();
	(void)atexit(at_exit);
	(void)at_quick_exit(at_exit);
}

static const char *error_text(int error, char text[ERROR_BYTES])
{
	const char *known = strerrordesc_np ? strerrordesc_np(error) : NULL;

	return known ? known : strerror_r(error, text, ERROR_BYTES);
}

static void log_backing(const struct cm_region *region, const char *dir)
{
	char text[ERROR_BYTES];
	const char *why = error_text(-region->error, text);

	switch (region->backing) {
	case CM_BACKING_FILE:
		cm_log(CM_LOG_INFO, "statistics in %s", region->path);
		break;
	case CM_BACKING_MEMFD:
		cm_log(CM_LOG_WARNING,
		       "no statistics file in %s (%s); kept in shared memory, where cudamemstat "
		       "finds them while the process lives",
		       dir, why);
		break;
	case CM_BACKING_PRIVATE:
		cm_log(CM_LOG_WARNING,
		       "no statistics file in %s (%s) and no shared memory; cudamemstat cannot "
		       "see this process",
		       dir, why);
		break;
	}
}

static void init_region(struct cm_region *region, const struct cm_config *config)
{
	struct cm_header *header = region->header;
	uint32_t i;
	int version;

	if (cm_real.cuDriverGetVersion(&version) == CUDA_SUCCESS)
		header->driver_version = (uint64_t)version;
	if (!cm_region_commit(region, CM_TABLE_OPTION, CM_OPTION_COUNT))
		for (i = 0; i < CM_OPTION_COUNT; i++)
			cm_config_row(config, i, cm_region_row(region, CM_TABLE_OPTION, i));
	header->entry_point[CM_ENTRY_CONFIG_ERRORS] = config->errors;
	cm_entry_points_publish(header->entry_point);
}

static int make_region(const struct cm_config *config, struct cm_region **ret_region)
{
	const struct cm_region_params params = {
		.dir = config->region_dir,
		.version = CM_VERSION,
		.events = (uint32_t)config->events,
		.stack_bytes = cm_settings_bytes(config->stack_table_mb),
		.text_bytes = cm_settings_bytes(config->text_table_mb),
		.backing = CM_BACKING_FILE,
	};
	/* What crashed over a weekend is still there on Monday. Each takes 3 to 10 MB, and a
	 * container's /dev/shm has 64 MB, which the program needs as well. */
	static const struct cm_region_keep keep = {
		.ns = DAY_NS, .least = 4, .most = 16, .share = 4};
	int err;

	(void)cm_region_sweep(config->region_dir, &keep);
	err = cm_region_create(&params, ret_region);
	if (!err) {
		log_backing(*ret_region, config->region_dir);
		init_region(*ret_region, config);
	}
	return err;
}

static void start_control(const struct cm_config *config, struct cm_region *region,
			  struct cm_cache *cache)
{
	/* No tool can write a command into private memory. */
	if (!config->control || region->backing == CM_BACKING_PRIVATE)
		return;
	if (cm_control_start(region, cache))
		cm_log(CM_LOG_WARNING,
		       "cannot create a thread; cudamemstat can read but not send commands");
	else
		region->header->flags |= CM_REGION_CONTROL;
}

/* The driver's table with the entries that this folder implements. */
static const struct cm_driver_ops *complete_ops(void)
{
	static struct cm_driver_ops ops;

	ops = *cm_driver_ops();
	ops.ask_peers = cm_peers_of_process;
	ops.capture_stack = cm_record_capture_now;
	ops.tell_oom = cm_oom_message_print;
	ops.show_oom = cm_oom_wait_until_seen;
	return &ops;
}

/* Whether the program has chosen how memory is reused: then this library does not. */
static bool reuse_is_chosen;

/* Makes everything; NULL if nothing is to be cached, or the start failed. */
static struct cm_cache *make_cache(void)
{
	struct cm_policy policy;
	struct cm_cache_params params = {.ops = complete_ops(), .policy = &policy};
	/* Also with mode:off: the wrappers call the originals that it finds. */
	const bool complete = cm_real_is_complete();
	struct cm_cache *cache = NULL;
	struct cm_config config;
	char text[ERROR_BYTES];
	int err;

	cm_settings_read(&config);
	if (config.mode == CM_MODE_OFF)
		return NULL;
	if (!complete) {
		cm_log(CM_LOG_WARNING, "the driver lacks required functions; nothing is cached");
		return NULL;
	}
	cm_settings_apply(&config, &policy);
	reuse_is_chosen = config.origin[CM_OPTION_reuse] != CM_ORIGIN_DEFAULT;
	err = make_region(&config, &params.region);
	if (err)
		goto out;
	mapped = params.region;
	cm_record_start(params.region, &config);
	cm_annotation_record_early();
	cm_oom_wait_start(&config);
	cm_process_stamp_start(params.region);
	err = cm_cache_create(&params, &cache);
	if (err)
		goto err_region;
	cm_record_attach(cache);
	params.region->keep = config.region_keep;
	/* A driver that gets each free waits for all work by itself. */
	if (policy.sync == CM_SYNC_NEVER || policy.mode == CM_MODE_STATS)
		cm_host_work_disable();
	(void)cm_unusual_set(CM_UNUSUAL_POLICY, !cm_cache_has_hits(cache));
	cm_process_set(params.region, &policy);
	__atomic_store_n(&params.region->header->state, CM_REGION_LIVE, __ATOMIC_RELEASE);
	/* In a process of one thread the biased locks can agree at once; else the helper does
	 * it. */
	if (&__libc_single_threaded && __libc_single_threaded)
		cm_lock_agree();
	start_control(&config, params.region, cache);
	if (!(params.region->header->flags & CM_REGION_CONTROL))
		cm_lock_agree();
	return cache;

err_region:
	mapped = NULL;
	cm_record_forget();
	cm_entry_points_publish(NULL);
	cm_region_remove(params.region);
	cm_region_abandon(params.region);
out:
	cm_log(CM_LOG_WARNING, "cannot start (%s); nothing is cached", error_text(-err, text));
	return NULL;
}

static void set_phase(enum phase phase)
{
	atomic_store_explicit(&cm_process.phase, phase, memory_order_release);
	(void)syscall(SYS_futex, &cm_process.phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void reach_all(const char *symbol, bool has_stack)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (!cache || reuse_is_chosen)
		return;
	cm_log(CM_LOG_INFO,
	       "%s: other devices may access any memory; freed memory is reused only when the GPU "
	       "has finished with it",
	       symbol);
	cm_cache_mark_reached(cache);
	cm_record_cause(CM_CAUSE_REACHED, symbol, has_stack);
}

static void reach_all_now(const char *symbol)
{
	reach_all(symbol, true);
}

/* The function is set before the notes are read, so that each note reaches one of the two. */
static void follow_notes(void)
{
	const char *symbol;

	cm_reached_on_note(reach_all_now);
	symbol = cm_reached_noted();
	if (symbol)
		reach_all(symbol, false);
}

static void run_start(void)
{
	struct cm_cache *cache;

	cm_cancel_hold();
	atomic_store(&cm_process.starter, (pid_t)syscall(SYS_gettid));
	register_once();
	if (mapped)
		forget_parent(); /* a child in which pthread_atfork handlers did not run */
	cache = make_cache();
	atomic_store_explicit(&cm_process.cache, cache, memory_order_release);
	(void)cm_unusual_set(CM_USUAL, cache != NULL);
	follow_notes();
	set_phase(cache ? PHASE_MADE : PHASE_OFF);
	cm_cancel_allow();
}

/* Another thread runs the start. The wait is short: that thread may need the loader's lock, and the
 * caller may be a constructor that holds it. */
static void wait_for_start(void)
{
	const struct timespec timeout = {0, WAIT_NS};

	if (atomic_load(&cm_process.starter) == (pid_t)syscall(SYS_gettid))
		return; /* a call from inside the start, or from a signal handler in it */
	(void)syscall(SYS_futex, &cm_process.phase, FUTEX_WAIT_PRIVATE, PHASE_STARTING, &timeout,
		      NULL, 0);
}

struct cm_cache *cm_process_start(void)
{
	uint32_t phase = atomic_load_explicit(&cm_process.phase, memory_order_acquire);
	int saved = errno;

	if (phase == PHASE_NEW &&
	    atomic_compare_exchange_strong(&cm_process.phase, &phase, PHASE_STARTING))
		run_start();
	else if (phase == PHASE_STARTING)
		wait_for_start();
	errno = saved;
	return cm_process_cache_if_made();
}

/* Only called before the start: afterwards it would be one driver call too many. */
static bool cuda_works(void)
{
	CUcontext ctx;
	CUresult res = cm_real.cuCtxGetCurrent(&ctx);

	return res != CUDA_ERROR_NOT_INITIALIZED && res != CUDA_ERROR_DEINITIALIZED;
}

struct cm_cache *cm_process_start_for_request(void)
{
	if (atomic_load_explicit(&cm_process.phase, memory_order_acquire) == PHASE_NEW &&
	    !cuda_works())
		return NULL;
	return cm_process_start();
}
