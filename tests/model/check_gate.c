/* SPDX-License-Identifier: MIT */
/*
 * The gate between captures and the library's own driver calls: interpose/driver/capture.c, and
 * what waits beside it: cm_gate_backoff and cm_gate_lock of allocator/base/gate.c, whose lock may
 * have a bias owner (allocator/base/lock.h). A capture and a call of ours touch each other's plain
 * words, so that both at once are a race.
 */
#include <string.h>

#include "allocator/base/thread.h"
#include "tests/model/model.h"

#define cm_thread_id model_thread
/* clang-format off: after the name is another, and the functions that are static there */
#include "allocator/base/gate.c" /* NOLINT(bugprone-suspicious-include) */
#include "allocator/base/lock.c" /* NOLINT(bugprone-suspicious-include) */
#include "allocator/base/lock.h"
#include "interpose/driver/capture.c" /* NOLINT(bugprone-suspicious-include) */
/* clang-format on */

/* What the two files refer to beside, and what no thread here comes to. */
struct cm_real cm_real;
union cm_process cm_process;
__thread unsigned int cm_hook_depth;
__thread struct cm_cancel cm_cancel;

uint64_t cm_device_of_context(uint64_t ctx)
{
	(void)ctx;
	return 0;
}

void cm_record_cause(enum cm_cause cause, const char *by, bool has_stack)
{
	(void)cause, (void)by, (void)has_stack;
}

void cm_record_cause_ended(enum cm_cause cause)
{
	(void)cause;
}

void cm_graph_kernels_add(CUgraph graph, uint64_t devices)
{
	(void)graph, (void)devices;
}

uint64_t cm_graph_kernels_changes(void)
{
	return 0;
}

void cm_graph_kernels_note_captured(CUgraph graph, uint64_t devices, uint64_t changes)
{
	(void)graph, (void)devices, (void)changes;
}

void cm_graph_kernels_forget_all(void)
{
}

static void sleep_ns(uint64_t ns)
{
	(void)ns;
	model_yield();
}

/* Patience comes to an end after a few looks; no business of the schedules. */
__attribute__((no_sanitize("thread"))) static uint64_t now_ns(void)
{
	static uint64_t now;

	return now += CM_GATE_CAPTURE_NS / 2;
}

static const struct cm_driver_ops ops = {
	.now_ns = now_ns,
	.gate_enter = cm_capture_gate_enter,
	.gate_leave = cm_capture_gate_leave,
	.sleep_ns = sleep_ns,
};

static struct cm_lock slow;
static struct cm_lock program; /* one of the program's own */

/* Each writes its own word and reads those of the others, which must not be there meanwhile. */
static uint64_t capturing[MODEL_THREADS], calling[MODEL_THREADS];
static _Atomic unsigned looks;

static void setup(void)
{
	cm_capture_forget_all();
	cm_lock_init(&slow, CM_LOCK_RECLAIM, 0);
	cm_lock_init(&program, CM_LOCK_PRIMARY, 0);
	memset(capturing, 0, sizeof(capturing));
	memset(calling, 0, sizeof(calling));
	atomic_store(&looks, 0);
}

/* The second thread has had the lock so often that it enters by its flag. */
static void setup_with_bias_owner(void)
{
	const uint32_t bias_owner = 2;

	setup();
	slow.owner[bias_owner % CM_LOCK_FLAGS] = bias_owner;
	atomic_store(&slow.bias_owner, bias_owner);
}

static void be_apart(uint64_t *own, const uint64_t *others)
{
	unsigned i;

	own[model_thread() - 1] = 1;
	for (i = 0; i < MODEL_THREADS; i++)
		MODEL_MUST(!others[i]);
	own[model_thread() - 1] = 0;
}

static void capture_once(void)
{
	announce_capture();
	be_apart(capturing, calling);
	withdraw_capture();
}

static void call(void)
{
	if (!cm_capture_gate_enter())
		return;
	be_apart(calling, capturing);
	cm_capture_gate_leave();
}

/* A request whose memory is out: one at a time looks, and sleeps between two looks. */
static void look_until_found(bool (*acquire)(const struct cm_driver_ops *with,
					     struct cm_lock *what))
{
	uint64_t backoff = CM_GATE_BACKOFF_NS;
	bool entered = true;

	if (!cm_capture_gate_enter() || !acquire(&ops, &slow))
		return;
	while (entered && atomic_fetch_add(&looks, 1) == 0)
		entered = cm_gate_backoff(&ops, &backoff);
	cm_lock_release(&slow);
	if (entered)
		cm_capture_gate_leave();
}

static void look(void)
{
	look_until_found(cm_gate_lock);
}

static void look_with_a_lock(void)
{
	cm_lock_acquire(&program);
	look();
	cm_lock_release(&program);
}

/* Back inside, however long the capture takes: what a sleep must not do. */
static bool lock_for_ever(const struct cm_driver_ops *with, struct cm_lock *what)
{
	cm_lock_acquire(what);
	with->gate_leave();
	do
		with->sleep_ns(CM_GATE_BACKOFF_NS);
	while (!with->gate_enter());
	return true;
}

static void look_for_ever_with_a_lock(void)
{
	cm_lock_acquire(&program);
	look_until_found(lock_for_ever);
	cm_lock_release(&program);
}

/* The capture goes on only once the request beside it has. */
static void capture_and_lock(void)
{
	announce_capture();
	cm_lock_acquire(&program);
	cm_lock_release(&program);
	withdraw_capture();
}

/* The reading before the raising: what the gate must not do. */
static void enter_late(void)
{
	if (atomic_load(&cm_captures))
		return;
	atomic_fetch_add(&calls_inside, 1);
	be_apart(calling, capturing);
	cm_capture_gate_leave();
}

int main(void)
{
	static const struct model_scenario scenarios[] = {
		{"a capture and a call", setup, {capture_once, call}, NULL, ~0u, NULL},
		{"two captures and a call",
		 setup,
		 {capture_once, capture_once, call},
		 NULL,
		 3,
		 NULL},
		{"a capture and two calls", setup, {capture_once, call, call}, NULL, 3, NULL},
		{"a capture beside requests that wait",
		 setup,
		 {capture_once, look, look},
		 NULL,
		 2,
		 NULL},
		{"a capture beside requests that wait for a bias owner",
		 setup_with_bias_owner,
		 {capture_once, look, look},
		 NULL,
		 2,
		 NULL},
		{"a capture that wants a waiting request's lock",
		 setup,
		 {capture_and_lock, look_with_a_lock},
		 NULL,
		 3,
		 NULL},
		{"a gate that is raised too late",
		 setup,
		 {capture_once, enter_late},
		 NULL,
		 ~0u,
		 "race"},
		{"a request that waits for a capture's end",
		 setup,
		 {capture_and_lock, look_for_ever_with_a_lock},
		 NULL,
		 3,
		 "spins for ever"},
	};

	model_thread_local(&cm_thread, sizeof(cm_thread));
	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
