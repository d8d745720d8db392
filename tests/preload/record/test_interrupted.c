/* SPDX-License-Identifier: MIT */
/*
 * A program whose signal handler asks for memory, interrupted at every single instruction that the
 * library executes in its hooks and for cudamem.h: the handler must never wait for what its own
 * thread holds.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include "tests/preload/api.h"
#include "tests/preload/driver.h"
#include "tests/preload/play.h"
#include "tests/unit/cmocka_all.h"

#define TRAP_FLAG   0x100 /* of the processor: a SIGTRAP behind each instruction */
#define STEPS_MIN   1000u /* fewer can't have been the library's */
#define STEPS_TRIED 100u

static struct cm_driver cuda;
static struct cm_api api;

static struct {
	CUresult (*attach)(CUcontext *ctx, unsigned int flags);
	CUresult (*detach)(CUcontext ctx);
} context;

static uintptr_t library, library_bytes; /* where its code lies */
static volatile bool stepping;
static volatile unsigned steps;

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	const uintptr_t address = (uintptr_t)api.annotation_push;
	ElfW(Half) i;

	(void)size;
	(void)arg;
	for (i = 0; i < info->dlpi_phnum; i++) {
		library = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		library_bytes = info->dlpi_phdr[i].p_memsz;
		if (info->dlpi_phdr[i].p_type == PT_LOAD && address - library < library_bytes)
			return 1;
	}
	return 0;
}

static void begin(void)
{
	cm_api_open(&api);
	CM_MUST(dl_iterate_phdr(find_code, NULL));
	cm_driver_open(&cuda, 1);
	CM_LOOK_UP(dlopen(getenv("DRIVER"), RTLD_NOW), "cuCtxAttach", context.attach);
	CM_LOOK_UP(dlopen(getenv("DRIVER"), RTLD_NOW), "cuCtxDetach", context.detach);
}

static void touch(void)
{
	CUdeviceptr block;
	CUcontext same;
	void *pinned;

	CM_MUST(!cuda.alloc(&block, 1000) && !cuda.free(block));
	CM_MUST(!cuda.host_alloc(&pinned, 1000, 0) && !cuda.host_free(pinned));
	/* A primary context is not detached. */
	CM_MUST(!context.attach(&same, 0) && context.detach(same) == CUDA_ERROR_INVALID_CONTEXT);
}

/* The driver and the C library are left alone: they have locks of their own. */
static void interrupt(int number, siginfo_t *info, void *arg)
{
	greg_t *registers = ((ucontext_t *)arg)->uc_mcontext.gregs;

	(void)number;
	(void)info;
	registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	if (!stepping)
		return;
	registers[REG_EFL] |= TRAP_FLAG;
	if ((uintptr_t)registers[REG_RIP] - library >= library_bytes)
		return;
	steps = steps + 1;
	touch();
}

static void ignore(void *data, const char *key, int64_t value)
{
	(void)data;
	(void)key;
	(void)value;
}

static void call_all(void)
{
	uint64_t free_bytes, total_bytes;

	touch();
	api.annotation_push("a name");
	(void)api.annotation_pop();
	(void)api.memory_allocated(0);
	(void)api.host_memory_stats(ignore, NULL);
	api.reset_peak_memory_stats(0);
	api.reset_accumulated_memory_stats(0);
	api.reset_peak_host_memory_stats();
	api.reset_accumulated_host_memory_stats();
	(void)api.get_memory_info(0, &free_bytes, &total_bytes);
	(void)api.record_memory_history("all", "state", "all", UINT64_MAX, 1);
}

CM_ROLE(interrupted)
{
	const struct sigaction action = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO};

	begin();
	touch();
	CM_MUST(!sigaction(SIGTRAP, &action, NULL));
	stepping = true;
	CM_MUST(!raise(SIGTRAP));
	call_all();
	stepping = false;
	CM_MUST(steps > STEPS_MIN);
}

static void count(int number, siginfo_t *info, void *arg)
{
	greg_t *registers = ((ucontext_t *)arg)->uc_mcontext.gregs;

	(void)number;
	(void)info;
	steps = steps + 1;
	if (steps < STEPS_TRIED)
		registers[REG_EFL] |= TRAP_FLAG;
	else
		registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

/* Emulators of a processor may know no such flag. */
static bool can_step(void)
{
	const struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
	struct sigaction before;
	volatile unsigned i;
	bool can;

	can = !sigaction(SIGTRAP, &action, &before) && !raise(SIGTRAP);
	for (i = 0; i < STEPS_TRIED; i++)
		;
	can = can && steps == STEPS_TRIED;
	(void)sigaction(SIGTRAP, &before, NULL);
	return can;
}

CM_PLAY_TEST(a_handler_can_ask_for_memory_at_every_moment)
{
	if (!can_step())
		cm_skip("no instruction can be stopped behind here");
	cm_play(state, "interrupted", "stacks:state", NULL);
}
