/* SPDX-License-Identifier: MIT */
/*
 * What docs/service.md says: which service each kind of process gets, and what it costs in one loop
 * of blocks that kernels use and that are freed behind them.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define LARGE     (3 * MIB)
#define SMALL     UINT64_C(512)
#define KERNEL_NS UINT64_C(50000)

enum { TURNS = 2000 };

static const char text[] =
	"cudasim-module\nkernel touch\n params ptr u64\n time 50us\n writes p0 p1\nend\n";

static void touch(CUfunction kernel, CUstream stream, CUdeviceptr addr, uint64_t bytes)
{
	void *params[] = {&addr, &bytes};

	OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

typedef void *register_fn(void *domain, void *addr, size_t bytes, int access);

/* What the driver's calls take: the order of magnitude of real drivers. */
static const char *const latencies[] = {
	"cuMemAlloc:20us",    "cuMemFree:20us",        "cuCtxRecordEvent:2us",
	"cuEventQuery:500ns", "cuCtxWaitEvent:2us",    "cuEventSynchronize:2us",
	"cuLaunchKernel:3us", "cuCtxSynchronize:10us",
};

/* The page's limits: the kernels' own time and 1.5 %, the native time, and the peak. By event the
 * host's speed decides, too, how many segments of 20 MiB it takes before it waits. */
#define LIMIT_NS  (TURNS * 2 * KERNEL_NS * 1015 / 1000)
#define NATIVE_NS UINT64_C(326100000)
#define PEAK      (90 * MIB)

/* With a function for that, large blocks are registered. */
static void loop_with(register_fn *reg, uint64_t limit_ns)
{
	size_t n;
	CUfunction kernel = cm_load(text, "touch");
	CUdeviceptr large, small;
	CUstream stream;
	uint64_t start;
	int i;

	for (n = 0; n < sizeof(latencies) / sizeof(latencies[0]); n++)
		CM_MUST(!cudasim_plan(latencies[n]));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	cudasim_reset_counters();
	start = cudasim_now();
	for (i = 0; i < TURNS; i++) {
		large = cm_get(LARGE);
		small = cm_get(SMALL);
		if (reg)
			(void)reg(NULL, (void *)large, LARGE, 0);
		touch(kernel, stream, large, LARGE);
		touch(kernel, stream, small, SMALL);
		OK(cuMemFree_v2(large));
		OK(cuMemFree_v2(small));
	}
	OK(cuCtxSynchronize());
	CM_MUST(cudasim_now() - start <= limit_ns);
	CM_MUST(cudasim_peak_bytes(0) <= PEAK);
}

static void loop(void)
{
	loop_with(NULL, LIMIT_NS);
}

static uint64_t calls_for_reuse(void)
{
	return cudasim_calls("cuEventQuery") + cudasim_calls("cuCtxRecordEvent") +
	       cudasim_calls("cuCtxWaitEvent") + cudasim_calls("cuEventSynchronize");
}

/* An event and a barrier a round at most, and hardly a query, since the device lags. */
static void must_be_ordered(void)
{
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 5);
	CM_MUST(cudasim_calls("cuEventQuery") <= 50);
	CM_MUST(cudasim_calls("cuEventSynchronize") == 0);
	CM_MUST(cudasim_calls("cuCtxWaitEvent") >= TURNS / 10);
	CM_MUST(calls_for_reuse() <= 2 * TURNS + TURNS / 20);
}

/* By the batch: a query for each context, seldom more, and a wait for the oldest one. */
static void must_be_asked_seldom(void)
{
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 5);
	CM_MUST(cudasim_calls("cuEventQuery") <= TURNS / 6);
	CM_MUST(cudasim_calls("cuEventSynchronize") >= 1);
	CM_MUST(cudasim_calls("cuEventSynchronize") <= TURNS / 6);
}

static void must_be_asked(void)
{
	must_be_asked_seldom();
	CM_MUST(cudasim_calls("cuCtxRecordEvent") <= TURNS / 4);
	CM_MUST(cudasim_calls("cuCtxWaitEvent") == 0);
}

CM_ROLE(ordered)
{
	cm_open(0);
	loop();
	must_be_ordered();
}

/* Where more may wait, a barrier orders many frees. */
CM_ROLE(roomy)
{
	cm_open(0);
	loop();
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 5);
	CM_MUST(cudasim_calls("cuEventQuery") <= 50);
	CM_MUST(calls_for_reuse() <= TURNS / 7);
}

/* Each block that waits is an allocation of its own there. */
CM_ROLE(roomy_rank)
{
	cm_open(0);
	loop();
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 50);
	CM_MUST(cudasim_calls("cuEventQuery") <= 50);
	CM_MUST(calls_for_reuse() <= TURNS / 7);
}

CM_ROLE(devices)
{
	CUcontext first = cm_open(0);

	cm_open(1);
	(void)cm_get(MIB);
	OK(cuCtxSetCurrent(first));
	loop();
	must_be_ordered();
}

static void play_asked(void)
{
	cm_open(0);
	loop();
	must_be_asked();
}

static void give_peer_access(CUcontext ctx)
{
	cm_open(1);
	(void)cm_get(MIB);
	OK(cuCtxEnablePeerAccess(ctx, 0));
	OK(cuCtxSetCurrent(ctx));
}

CM_ROLE(peers)
{
	give_peer_access(cm_open(0));
	loop();
	must_be_asked();
}

/* What was let wait for a barrier is not waited for once there is none. */
CM_ROLE(later_peers)
{
	CUcontext ctx = cm_open(0);

	loop();
	give_peer_access(ctx);
	loop(); /* the first wait is for all that was gathered */
}

/* It is loaded, and not called. */
static void open_storage(void)
{
	CM_MUST(dlopen(getenv("LIBRARIES"), RTLD_NOW));
	CM_MUST(dlopen(getenv("CALLER"), RTLD_NOW));
}

CM_ROLE(storage)
{
	open_storage();
	play_ordered();
}

static register_fn *find_register(void)
{
	register_fn *reg = dlsym(dlopen(getenv("VERBS"), RTLD_NOW), "ibv_reg_mr");

	CM_MUST(reg);
	return reg;
}

CM_ROLE(registered_other)
{
	register_fn *reg = find_register();

	cm_open(0);
	CM_MUST(reg(NULL, (void *)cm_get(64 * MIB), 64 * MIB, 0));
	loop();
	must_be_ordered();
}

/* It is asked for, and nothing waits for it but its first registration. */
CM_ROLE(registered)
{
	register_fn *reg = find_register();

	cm_open(0);
	loop_with(reg, LIMIT_NS);
	must_be_asked_seldom();
	CM_MUST(cudasim_calls("cuCtxSynchronize") == 1);
}

/* ---- what cudamemstat show says of it ---- */

#define SHOWN_BYTES 65536

/* What `show` prints of this process. */
static void show(const char *options, char said[SHOWN_BYTES])
{
	char command[2 * PATH_MAX];
	FILE *from;

	(void)snprintf(command, sizeof(command), "LD_PRELOAD= '%s' show %s --dir '%s' %d",
		       getenv("TOOL"), options, getenv("REGIONS"), (int)getpid());
	from = popen(command, "r");
	CM_MUST(from);
	said[fread(said, 1, SHOWN_BYTES - 1, from)] = '\0';
	CM_MUST(!pclose(from));
}

/* By the name that the stack has with elfutils, or without. */
static void must_name_caller(const char *said)
{
	CM_MUST(strstr(said, "register_one") || strstr(said, "test_surface_service+0x"));
}

__attribute__((noinline)) static void register_one(register_fn *reg, CUdeviceptr addr)
{
	CM_MUST(reg(NULL, (void *)addr, LARGE, 0));
	cudasim_reset_counters(); /* keeps the call from being the last one */
}

CM_ROLE(shown)
{
	static char said[SHOWN_BYTES];

	cm_open(0);
	(void)cm_get(LARGE);
	show("", said);
	CM_MUST(strstr(said, "\nservice: reuse by barrier, placement pieces\n"));
	CM_MUST(!strstr(said, "\n    at "));
	register_one(find_register(), cm_get(LARGE));
	show("", said);
	CM_MUST(strstr(said, " by event: named to network cards or disks: ibv_reg_mr\n    at "));
	must_name_caller(said);
	show("-J", said);
	CM_MUST(strstr(said, "\"by\":\"ibv_reg_mr\",\"frames\":[{\"function\":\""));
	must_name_caller(said);
}

/* The call that gives access comes when the library has started. */
CM_ROLE(shown_peers)
{
	static char said[SHOWN_BYTES];
	CUcontext ctx = cm_open(0);

	(void)cm_get(LARGE);
	give_peer_access(ctx);
	show("", said);
	CM_MUST(strstr(said, "\n  peer access was given: cuCtxEnablePeerAccess\n    at "));
	CM_MUST(strstr(said, "\nservice: reuse by event"));
}

/* Given before there is any memory, and so no region. */
__attribute__((noinline)) static void give_early(CUcontext ctx)
{
	OK(cuCtxEnablePeerAccess(ctx, 0));
	cudasim_reset_counters(); /* keeps the call from being the last one */
}

CM_ROLE(shown_early)
{
	static char said[SHOWN_BYTES];
	CUcontext ctx = cm_open(0);

	cm_open(1);
	give_early(ctx);
	OK(cuCtxSetCurrent(ctx));
	(void)cm_get(LARGE);
	show("", said);
	CM_MUST(strstr(said, "\n  peer access was given: cuCtxEnablePeerAccess\n    at "));
	CM_MUST(strstr(said, "give_early") || strstr(said, "test_surface_service+0x"));
}

__attribute__((noinline)) static void register_early(register_fn *reg)
{
	CM_MUST(reg(NULL, NULL, SIZE_MAX, 0));
	cudasim_reset_counters(); /* keeps the call from being the last one */
}

/* All addresses, and so memory that is allocated later. */
CM_ROLE(shown_all)
{
	static char said[SHOWN_BYTES];

	register_early(find_register());
	cm_open(0);
	(void)cm_get(LARGE);
	show("", said);
	CM_MUST(strstr(said, "\n  other devices may access any memory: ibv_reg_mr\n    at "));
	CM_MUST(strstr(said, "register_early") || strstr(said, "test_surface_service+0x"));
}

CM_ROLE(shown_apart)
{
	static char said[SHOWN_BYTES];

	CM_MUST(dlmopen(LM_ID_NEWLM, getenv("LOOSE"), RTLD_NOW));
	cm_open(0);
	(void)cm_get(LARGE);
	show("", said);
	CM_MUST(strstr(said, "\nservice: reuse by event, placement exact\n"));
	CM_MUST(strstr(said, "\n  other devices may access any memory: "));
	CM_MUST(strstr(said, "libgdrapi.so"));
	CM_MUST(strstr(said, "\n  memory may be shared with other processes: WORLD_SIZE\n"));
}

__attribute__((noinline)) static void begin_capture(CUstream stream)
{
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	cudasim_reset_counters(); /* keeps the call from being the last one */
}

/* The last one of three is left. */
CM_ROLE(shown_capture)
{
	static char said[SHOWN_BYTES];
	CUstream stream, beside;
	CUgraph graph;

	cm_open(0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
	(void)cm_get(LARGE);
	begin_capture(stream);
	show("", said);
	CM_MUST(strstr(said, "\nservice: reuse by the driver\n"
			     "  a stream is being captured: cuStreamBeginCapture\n    at "));
	CM_MUST(strstr(said, "begin_capture") || strstr(said, "test_surface_service+0x"));
	OK(cuStreamEndCapture(stream, &graph));
	show("", said);
	CM_MUST(strstr(said, "\nservice: reuse by barrier, placement pieces\n"));
	begin_capture(stream);
	begin_capture(beside);
	OK(cuStreamEndCapture(stream, &graph));
	show("", said);
	CM_MUST(strstr(said, "\nservice: reuse by the driver\n"));
}

/* A request that is no hit, since what is freed is still in use. */
static void request_behind_work(void)
{
	CUdeviceptr addr = cm_get(64 * MIB);

	OK(cuMemsetD8Async(addr, 1, 64 * MIB, NULL));
	OK(cuMemFree_v2(addr));
	OK(cuMemFree_v2(cm_get(64 * MIB)));
}

CM_ROLE(shown_named)
{
	static char said[SHOWN_BYTES];
	static volatile uint32_t flag;
	CUcontext first = cm_open(0);
	CUdeviceptr of_first = cm_get(LARGE), of_second;
	CUstream stream;

	cm_open(1);
	of_second = cm_get(LARGE);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	cm_launch_hold(cm_load_hold(), stream, of_second, 512, &flag);
	OK(cuMemsetD8Async(of_first, 1, LARGE, stream));
	OK(cuCtxSetCurrent(first));
	request_behind_work();
	show("", said);
	CM_MUST(strstr(said, "\nservice: reuse by event, placement pieces\n"
			     "  work of another device names its memory\n"));
	flag = 1;
	OK(cuStreamSynchronize(stream));
	request_behind_work();
	show("", said);
	CM_MUST(!strstr(said, "names its memory"));
}

static void open_apart(void)
{
	CM_MUST(dlmopen(LM_ID_NEWLM, getenv("LOOSE"), RTLD_NOW));
}

CM_ROLE(apart)
{
	open_apart();
	play_asked();
}

CM_ROLE(apart_by_hand)
{
	open_apart();
	play_ordered();
}

/* What is freed until the next wait lies in so many driver allocations. */
static void must_be_waited_for(unsigned waits, unsigned allocations)
{
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= allocations);
	CM_MUST(cudasim_calls("cuCtxRecordEvent") == 0);
	CM_MUST(cudasim_calls("cuCtxSynchronize") <= waits);
}

CM_ROLE(waited)
{
	cm_open(0);
	loop();
	must_be_waited_for(TURNS / 10, 5);
}

CM_ROLE(waited_rank)
{
	CM_MUST(!setenv("WORLD_SIZE", "8", 1));
	cm_open(0);
	loop();
	must_be_waited_for(TURNS / 7, 20);
}

CM_ROLE(waited_storage)
{
	open_storage();
	play_waited();
}

CM_ROLE(waited_registered)
{
	register_fn *reg = find_register();

	cm_open(0);
	loop_with(reg, LIMIT_NS);
	must_be_waited_for(TURNS / 10, 5);
}

/* Both contexts are waited for. */
CM_ROLE(waited_peers)
{
	give_peer_access(cm_open(0));
	loop();
	must_be_waited_for(2 * TURNS / 10, 5);
}

CM_ROLE(freed)
{
	cm_open(0);
	loop_with(NULL, NATIVE_NS);
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 5);
	CM_MUST(cudasim_calls("cuCtxSynchronize") >= 2 * TURNS);
}

CM_ROLE(forwarded)
{
	cm_open(0);
	loop_with(NULL, NATIVE_NS);
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == 2 * TURNS);
}

/* Under a cap nothing more is let wait than in a program that is large for its card. */
#define CAP "memory_limit_mb:15000"

CM_PLAY(natively_each_free_waits, "forwarded", NULL, NULL)
CM_PLAY(one_context_is_ordered, "ordered", CAP, NULL)
CM_PLAY(a_card_with_room_is_ordered_seldom, "roomy", "", "CUDASIM=memory:16G")
CM_PLAY(a_rank_on_a_card_with_room_is_ordered_seldom, "roomy_rank", "", "WORLD_SIZE=8")
CM_PLAY(several_devices_are_ordered, "devices", CAP, "CUDASIM=devices:2")
CM_PLAY(exact_blocks_are_ordered, "ordered", "placement:exact," CAP, NULL)
CM_PLAY(pages_are_ordered, "ordered", "expandable_segments:on," CAP, NULL)
CM_PLAY(peers_are_asked, "peers", CAP, "CUDASIM=devices:2")
CM_PLAY(peers_are_asked_on_a_card_with_room, "peers", "", "CUDASIM=devices:2,memory:80G")
CM_PLAY(later_peers_are_asked, "later_peers", "", "CUDASIM=devices:2,memory:80G")
CM_PLAY(a_rank_is_ordered, "ordered", CAP, "WORLD_SIZE=8")
CM_PLAY(a_process_with_storage_is_ordered, "storage", CAP, NULL)
CM_PLAY(after_other_memory_was_registered_it_is_ordered, "registered_other", CAP, "WORLD_SIZE=8")
CM_PLAY(registered_memory_is_asked_for, "registered", CAP, NULL)
CM_PLAY(a_process_with_calls_past_us_is_asked, "apart", CAP, NULL)
CM_PLAY(a_process_with_calls_past_us_is_ordered_by_hand, "apart_by_hand", "reuse:barrier," CAP,
	NULL)
CM_PLAY(a_driver_of_12_4_is_waited_for, "waited", CAP, "CUDASIM=version:12040")
CM_PLAY(a_driver_of_12_2_is_waited_for, "waited", CAP, "CUDASIM=version:12020")
CM_PLAY(a_rank_with_12_4_is_waited_for, "waited_rank", CAP, "CUDASIM=version:12040")
CM_PLAY(a_rank_with_12_2_is_waited_for, "waited_rank", CAP, "CUDASIM=version:12020")
CM_PLAY(a_process_with_storage_and_12_4_is_waited_for, "waited_storage", CAP,
	"CUDASIM=version:12040")
CM_PLAY(a_process_with_storage_and_12_2_is_waited_for, "waited_storage", CAP,
	"CUDASIM=version:12020")
CM_PLAY(registered_memory_with_12_4_is_waited_for, "waited_registered", CAP,
	"CUDASIM=version:12040")
CM_PLAY(registered_memory_with_12_2_is_waited_for, "waited_registered", CAP,
	"CUDASIM=version:12020")
CM_PLAY(peers_of_a_driver_of_12_4_are_waited_for, "waited_peers", CAP,
	"CUDASIM=devices:2,version:12040")
CM_PLAY(a_free_waits_by_hand, "freed", "sync:free," CAP, NULL)
CM_PLAY(a_call_that_takes_the_barrier_is_shown, "shown", "", NULL)
CM_PLAY(access_that_takes_the_barrier_is_shown, "shown_peers", "", "CUDASIM=devices:2")
CM_PLAY(access_before_the_start_is_shown_with_its_stack, "shown_early", "", "CUDASIM=devices:2")
CM_PLAY(a_registration_before_the_start_is_shown_with_its_stack, "shown_all", "", NULL)
CM_PLAY(what_takes_it_before_the_start_is_shown, "shown_apart", "", "WORLD_SIZE=8")
CM_PLAY(a_capture_is_shown, "shown_capture", "", NULL)
CM_PLAY(work_of_another_device_is_shown, "shown_named", "", "CUDASIM=devices:2")
CM_PLAY(a_profiler_sees_all, "forwarded", "", "NVTX_INJECTION64_PATH=/tool")
