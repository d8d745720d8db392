/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/record.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "interpose/core/unusual.h"
#include "interpose/stacks/early_stack.h"
#include "interpose/stacks/python.h"
#include "interpose/stacks/unwind.h"
#include "interpose/symbols/next_symbol.h"
#include "stats/intern.h"
#include "stats/modules.h"
#include "stats/region.h"

#define RANGE_BYTES 512 /* names of nested ranges: on the stack of the program */

_Static_assert(CM_STACK_DEPTH_MAX * 2 <= CM_STACK_FRAMES_MAX, "both kinds of frames have room");

_Atomic uint32_t cm_record_context;

/* Release: a thread that sees the level sees the tables. */
static void set_context(uint32_t context)
{
	atomic_store_explicit(&cm_record_context, context, memory_order_release);
	(void)cm_unusual_set(CM_UNUSUAL_RECORDED, context != CM_CONTEXT_NONE);
}

static struct {
	struct cm_record *record; /* in the region; NULL: none */
	struct cm_cache *cache;
	uint32_t depth;
	_Atomic uint32_t stacks; /* enum cm_stacks */
	_Atomic bool started;
	struct cm_intern_table stack_table;
	struct cm_intern_table text_table;
	struct cm_modules modules;
} recorder;

/* Held while the settings change. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

/* Reasons that were noted before there was a region. */
static const char *_Atomic early_cause[CM_CAUSE_COUNT];

static struct cm_unwind_skip own_code(void)
{
	return (struct cm_unwind_skip){(uintptr_t)__ehdr_start, (uintptr_t)_end};
}

static uint32_t add_stack(uint64_t *words, size_t count, bool cut, uint32_t generation)
{
	words[0] = cm_stack_word((uint32_t)count, cut ? CM_STACK_CUT : 0, generation);
	return count ? cm_intern_table_add(&recorder.stack_table, words,
					   (count + 1) * sizeof(words[0]))
		     : 0;
}

/* The stack that was kept before there was a region; 0: none. */
static uint32_t early_stack(enum cm_cause cause, const char *by)
{
	uint64_t words[1 + CM_EARLY_FRAMES], unloads;
	uint32_t generation;
	size_t count;
	bool cut;

	if (!cm_modules_refresh(&recorder.modules, &generation, &unloads))
		return 0;
	count = cm_early_stack_read(
		cause, by, unloads, words + 1,
		recorder.depth < CM_EARLY_FRAMES ? recorder.depth : CM_EARLY_FRAMES, &cut);
	return add_stack(words, count, cut, generation);
}

/* Adds a text to the region and returns its id; 0: nothing is recorded, or no space. */
static uint32_t add_text(const char *text)
{
	if (!atomic_load_explicit(&recorder.started, memory_order_acquire))
		return 0;
	return cm_intern_table_add(&recorder.text_table, text, strlen(text) + 1);
}

static void publish_cause(enum cm_cause cause, const char *by, uint32_t stack)
{
	uint64_t none = 0;

	/* Release: a reader that sees the word sees text and stack. */
	(void)__atomic_compare_exchange_n(&recorder.record->cause[cause], &none,
					  cm_cause_pack(add_text(by), stack), false,
					  __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void publish_early_causes(void)
{
	const char *by;
	size_t i;

	for (i = 0; i < CM_CAUSE_COUNT; i++) {
		by = atomic_exchange(&early_cause[i], NULL);
		if (by)
			publish_cause((enum cm_cause)i, by, early_stack((enum cm_cause)i, by));
	}
}

void cm_record_keep_stack(enum cm_cause cause, const char *by)
{
	const struct cm_unwind_skip own = own_code();

	cm_early_stack_keep(cause, by, &own);
}

void cm_record_cause(enum cm_cause cause, const char *by, bool has_stack)
{
	const char *none = NULL;

	if (!atomic_load(&recorder.started)) {
		/* A kept stack stays; that of a capture would outlive it. */
		if (has_stack && cause != CM_CAUSE_CAPTURE)
			cm_record_keep_stack(cause, by);
		(void)atomic_compare_exchange_strong(&early_cause[cause], &none, by);
		/* The recorder may have started in between, and have published what was noted. */
		if (atomic_load(&recorder.started))
			publish_early_causes();
	} else if (!__atomic_load_n(&recorder.record->cause[cause], __ATOMIC_RELAXED)) {
		publish_cause(cause, by,
			      has_stack ? cm_record_capture_now() : early_stack(cause, by));
	}
}

void cm_record_cause_ended(enum cm_cause cause)
{
	atomic_store(&early_cause[cause], NULL);
	if (atomic_load(&recorder.started))
		__atomic_store_n(&recorder.record->cause[cause], 0, __ATOMIC_SEQ_CST);
}

static void publish_python(void)
{
	uint32_t minor;

	recorder.record->python = (uint16_t)cm_python_state(&minor);
	recorder.record->python_minor = (uint16_t)minor;
}

void cm_record_start(struct cm_region *region, const struct cm_config *config)
{
	struct cm_record *record = &region->header->record;

	recorder.record = record;
	recorder.depth = (uint32_t)config->stack_depth;
	record->depth = recorder.depth;
	record->context = config->stacks;
	record->stacks = config->stack_frames;
	cm_intern_table_init(&recorder.stack_table, region, CM_TABLE_STACK, &record->stack_words,
			     &record->stacks_lost, &record->stack_count);
	cm_intern_table_init(&recorder.text_table, region, CM_TABLE_TEXT, &record->text_bytes,
			     &record->texts_lost, NULL);
	cm_modules_init(&recorder.modules, region, &recorder.text_table);
	/* Also for reports about requests of which no stack is recorded. */
	cm_python_find();
	publish_python();
	atomic_store(&recorder.stacks, config->stack_frames);
	atomic_store(&recorder.started, true);
	publish_early_causes();
	set_context(config->stacks);
}

void cm_record_attach(struct cm_cache *cache)
{
	recorder.cache = cache;
}

void cm_record_forget(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
	size_t i;

	set_context(CM_CONTEXT_NONE);
	if (atomic_exchange(&recorder.started, false)) {
		cm_intern_table_fini(&recorder.stack_table);
		cm_intern_table_fini(&recorder.text_table);
	}
	recorder.record = NULL;
	recorder.cache = NULL;
	for (i = 0; i < CM_CAUSE_COUNT; i++)
		atomic_store(&early_cause[i], NULL);
	cm_early_stack_forget();
	changing = unlocked;
	cm_python_forget();
}

static bool is_valid(const struct cm_record_request *request)
{
	return (!(request->set & CM_RECORD_SET_EVENTS) || request->events <= 1) &&
	       (!(request->set & CM_RECORD_SET_CONTEXT) || request->context < CM_CONTEXT_COUNT) &&
	       (!(request->set & CM_RECORD_SET_STACKS) || request->stacks < CM_STACKS_COUNT) &&
	       (!(request->set & CM_RECORD_SET_MAX_ENTRIES) || request->max_entries);
}

static int change_locked(const struct cm_record_request *request)
{
	struct cm_record *record = recorder.record;
	uint64_t devices;
	int err = 0;

	if (request->set & CM_RECORD_SET_MAX_ENTRIES)
		record->max_entries = request->max_entries;
	if (request->set & CM_RECORD_SET_STACKS) {
		record->stacks = request->stacks;
		atomic_store(&recorder.stacks, request->stacks);
	}
	if (request->set & CM_RECORD_CLEAR)
		cm_cache_clear_events(recorder.cache, request->devices);
	if (request->set & CM_RECORD_SET_EVENTS) {
		err = cm_cache_record_events(recorder.cache, request->devices, request->events,
					     &devices);
		record->events = devices != 0;
		record->devices = devices == CM_ALL_DEVICES ? 0 : devices;
	}
	if (request->set & CM_RECORD_SET_CONTEXT) {
		record->context = request->context;
		set_context(request->context);
	}
	return err;
}

int cm_record_change(const struct cm_record_request *request)
{
	int err;

	if (!is_valid(request))
		return -EINVAL;
	if ((request->set & CM_RECORD_SET_CONTEXT) && request->context != CM_CONTEXT_NONE)
		cm_python_find();
	(void)pthread_mutex_lock(&changing);
	err = recorder.cache ? change_locked(request) : -ENODEV;
	(void)pthread_mutex_unlock(&changing);
	return err;
}

uint32_t cm_record_range(uint32_t around, const char *name)
{
	char path[RANGE_BYTES];
	const char *outer;
	int length = -1;

	if (around && atomic_load_explicit(&recorder.started, memory_order_acquire)) {
		outer = cm_region_row(recorder.text_table.region, CM_TABLE_TEXT, around);
		length = snprintf(path, sizeof(path), "%s%c%s", outer, CM_RANGE_SPLIT, name);
	}
	return add_text(length > 0 && (size_t)length < sizeof(path) ? path : name);
}

static bool runs_python(const uint64_t *native, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (cm_python_is_eval(native[i]))
			return true;
	return false;
}

/*
 * Joins return addresses and Python frames: those that one C function of the interpreter runs take
 * its place. If no such function is there, they all stand in front of its other code. Writes to
 * `words`, which may have `native` at its end, and returns how many.
 */
static size_t merge(const uint64_t *native, size_t count, const struct cm_python_frames *python,
		    uint64_t *words)
{
	const bool known = python->placed && runs_python(native, count);
	size_t i, next = 0, used = 0;
	bool here;

	for (i = 0; i < count; i++) {
		here = next < python->count &&
		       (known ? cm_python_is_eval(native[i])
			      : python->placed && cm_python_is_interpreter(native[i]));
		while (here && next < python->count) {
			words[used++] = python->frame[next++];
			if (known && python->entry[next - 1])
				break;
		}
		if (!here || !known)
			words[used++] = native[i];
	}
	while (next < python->count)
		words[used++] = python->frame[next++];
	return used;
}

/* Writes the frames to words[1] and following and returns how many. `native`: C frames too. */
static size_t collect_frames(bool native, uint64_t unloads, uint64_t *words, bool *ret_cut)
{
	const struct cm_unwind_skip own = own_code();
	const uint32_t depth = recorder.depth;
	struct cm_python_frames python;
	uint32_t how;
	bool cut = false;
	size_t count = 0;

	if (native)
		count = cm_unwind(&own, unloads, words + 1 + depth, depth, &cut);
	cm_python_stack(&python, depth, add_text);
	if (cm_python_state(&how) != recorder.record->python)
		publish_python();
	*ret_cut = cut || python.cut;
	return merge(words + 1 + depth, count, &python, words + 1);
}

/* 7 KiB, but only while stacks are recorded. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wframe-larger-than="

/* Not inlined: calls that are not recorded do not pay for its array on the stack. */
CM_NOINLINE void cm_record_capture(void)
{
	const bool native = atomic_load_explicit(&recorder.stacks, memory_order_relaxed) ==
			    CM_STACKS_ALL;
	uint64_t words[1 + 2 * CM_STACK_DEPTH_MAX], unloads = 0;
	const int saved = errno;
	uint32_t generation = 0;
	size_t count;
	bool cut;

	cm_thread.stack = 0;
	/* Without addresses, nothing depends on the module map. */
	if (!native || cm_modules_refresh(&recorder.modules, &generation, &unloads)) {
		count = collect_frames(native, unloads, words, &cut);
		cm_thread.stack = add_stack(words, count, cut, generation);
	} else {
		__atomic_fetch_add(&recorder.record->stacks_lost, 1, __ATOMIC_RELAXED);
	}
	errno = saved;
}

#pragma GCC diagnostic pop

uint32_t cm_record_capture_now(void)
{
	const uint32_t before = cm_thread.stack;
	uint32_t stack = before;

	if (!stack && atomic_load_explicit(&recorder.started, memory_order_acquire)) {
		cm_record_capture();
		stack = cm_thread.stack;
	}
	cm_thread.stack = before;
	return stack;
}
