/* SPDX-License-Identifier: MIT */
/*
 * The library with a ring around it, for the checker of the simulated driver (tests/sim/README.md):
 * the same archives, linked once more so that calls of a few functions come here first (--wrap).
 * Whatever entry point a program uses, it comes through this, and the checker hears what memory the
 * program owns; what the allocator asks of the driver on its own behalf is marked as such.
 */
#include "tests/checked/ring.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "allocator/paged/paged.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/ordered.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/symbols/hooks.h"

#define WRAPPED(symbol)                     \
	__typeof__(symbol) __wrap_##symbol; \
	extern __typeof__(symbol) __real_##symbol __attribute__((visibility("hidden")))

WRAPPED(cm_wrap_cuMemAlloc_v2);
WRAPPED(cm_wrap_cuMemFree_v2);
WRAPPED(cm_wrap_cuMemFreeAsync);
WRAPPED(cm_wrap_cuMemFreeAsync_ptsz);
WRAPPED(cm_wrap_cuMemHostAlloc);
WRAPPED(cm_wrap_cuMemAllocHost_v2);
WRAPPED(cm_wrap_cuMemFreeHost);
WRAPPED(cm_cache_end_wait);
WRAPPED(cm_driver_ops);
WRAPPED(cm_ordered_settle);
WRAPPED(cm_paged_handle_pages);
WRAPPED(cm_paged_return_forgotten);

/* The checker's functions, or ones that do nothing where another driver is there. */
static struct {
	void (*allocated)(const void *addr, size_t bytes, int on_host);
	int (*freed)(const void *addr);
	void (*not_freed)(const void *addr);
	void (*allocator_enter)(void);
	void (*allocator_leave)(void);
	void (*allocator_is_told)(void);
	void (*allocator_settles)(void);
	uint64_t (*now)(void);
	void (*advance)(uint64_t ns);
} checker;

static int do_nothing(void)
{
	return 0;
}

static void *find(void *driver, const char *name)
{
	void *found = driver ? dlsym(driver, name) : NULL;

	return found ? found : (void *)do_nothing;
}

/* The originals are known before a wrapper first runs; the object that they are in has the rest. */
static void find_checker(void)
{
	void *driver = NULL;
	Dl_info info;

	if (dladdr((void *)cm_real.cuMemAlloc_v2, &info) && info.dli_fname)
		driver = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	*(void **)&checker.allocated = find(driver, "cudasim_allocated");
	*(void **)&checker.freed = find(driver, "cudasim_freed");
	*(void **)&checker.not_freed = find(driver, "cudasim_not_freed");
	*(void **)&checker.allocator_enter = find(driver, "cudasim_allocator_enter");
	*(void **)&checker.allocator_leave = find(driver, "cudasim_allocator_leave");
	*(void **)&checker.allocator_is_told = find(driver, "cudasim_allocator_is_told");
	*(void **)&checker.allocator_settles = find(driver, "cudasim_allocator_settles");
	if (driver && getenv("CM_RING_CLOCK")) {
		*(void **)&checker.now = dlsym(driver, "cudasim_now");
		*(void **)&checker.advance = dlsym(driver, "cudasim_advance");
	}
}

static void prepare(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, find_checker);
}

/* A call from within the library is not the program's. */
static bool is_outermost(void)
{
	if (cm_hook_depth)
		return false;
	prepare();
	return true;
}

static void *pointer(CUdeviceptr addr)
{
	return (void *)(uintptr_t)addr;
}

/* ---- what the program owns ---- */

CUresult __wrap_cm_wrap_cuMemAlloc_v2(CUdeviceptr *addr, size_t bytes)
{
	bool outermost = is_outermost();
	CUresult res = __real_cm_wrap_cuMemAlloc_v2(addr, bytes);

	if (outermost && res == CUDA_SUCCESS)
		checker.allocated(pointer(*addr), bytes, 0);
	return res;
}

/* Before the call: from within it somebody else may be given the memory. */
#define FREE(symbol, params, pass, addr)                            \
	CUresult __wrap_cm_wrap_##symbol params                     \
	{                                                           \
		bool taken = is_outermost() && checker.freed(addr); \
		CUresult res = __real_cm_wrap_##symbol pass;        \
                                                                    \
		if (taken && res != CUDA_SUCCESS)                   \
			checker.not_freed(addr);                    \
		return res;                                         \
	}

/* clang-format off */
FREE(cuMemFree_v2, (CUdeviceptr addr), (addr), pointer(addr))
FREE(cuMemFreeAsync, (CUdeviceptr addr, CUstream stream), (addr, stream), pointer(addr))
FREE(cuMemFreeAsync_ptsz, (CUdeviceptr addr, CUstream stream), (addr, stream), pointer(addr))
FREE(cuMemFreeHost, (void *ptr), (ptr), ptr)
/* clang-format on */

CUresult __wrap_cm_wrap_cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	bool outermost = is_outermost();
	CUresult res = __real_cm_wrap_cuMemHostAlloc(ptr, bytes, flags);

	if (outermost && res == CUDA_SUCCESS)
		checker.allocated(*ptr, bytes, 1);
	return res;
}

CUresult __wrap_cm_wrap_cuMemAllocHost_v2(void **ptr, size_t bytes)
{
	bool outermost = is_outermost();
	CUresult res = __real_cm_wrap_cuMemAllocHost_v2(ptr, bytes);

	if (outermost && res == CUDA_SUCCESS)
		checker.allocated(*ptr, bytes, 1);
	return res;
}

/* ---- what the allocator is told ---- */

static const struct cm_driver_ops *inner;

#define MARKED(name, params, pass)         \
	static int name params             \
	{                                  \
		int err;                   \
                                           \
		prepare();                 \
		checker.allocator_enter(); \
		err = inner->name pass;    \
		checker.allocator_leave(); \
		return err;                \
	}

/* clang-format off */
MARKED(mem_alloc, (uint64_t ctx, uint64_t bytes, uint64_t *ret_addr), (ctx, bytes, ret_addr))
MARKED(mem_free, (uint64_t ctx, uint64_t addr), (ctx, addr))
MARKED(mem_free_as_asked, (uint64_t ctx, uint64_t addr), (ctx, addr))
MARKED(host_alloc, (uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr),
       (ctx, bytes, kind, ret_addr))
MARKED(host_free, (uint64_t ctx, uint64_t addr), (ctx, addr))
MARKED(event_query, (uint64_t ctx, uint64_t event), (ctx, event))
MARKED(event_query_ungated, (uint64_t ctx, uint64_t event), (ctx, event))
MARKED(event_wait_ungated, (uint64_t ctx, uint64_t event), (ctx, event))
MARKED(ctx_synchronize, (uint64_t ctx), (ctx))
MARKED(page_map, (uint64_t addr, uint64_t bytes, uint64_t page), (addr, bytes, page))
MARKED(page_unmap, (uint64_t addr, uint64_t bytes), (addr, bytes))
/* clang-format on */

/*
 * Where CM_RING_CLOCK is set, the library's clock is the machine's: work goes on while it sleeps,
 * however short the sleep is for the tester, and how often it asks before its patience is out does
 * not hang on who else uses the processor. Not where it waits for other processes, whose time is
 * real.
 */
static uint64_t now_ns(void)
{
	prepare();
	return checker.now ? checker.now() : inner->now_ns();
}

static void sleep_ns(uint64_t ns)
{
	prepare();
	if (checker.advance)
		checker.advance(ns);
	inner->sleep_ns(checker.advance ? 0 : ns);
}

/* What goes after its context takes the program's blocks along, as it does natively. */
static __thread bool context_is_gone;

static int page_unmap_of_any(uint64_t addr, uint64_t bytes)
{
	return context_is_gone ? inner->page_unmap(addr, bytes) : page_unmap(addr, bytes);
}

/* The other tools of this folder put themselves between the allocator and its driver. */
__attribute__((weak)) void cm_ring_break(struct cm_driver_ops *ops)
{
	(void)ops;
}

const struct cm_driver_ops *__wrap_cm_driver_ops(void)
{
	static struct cm_driver_ops ops;

	if (!inner) {
		inner = __real_cm_driver_ops();
		ops = *inner;
		ops.mem_alloc = mem_alloc;
		ops.mem_free = mem_free;
		ops.mem_free_as_asked = mem_free_as_asked;
		ops.host_alloc = host_alloc;
		ops.host_free = host_free;
		ops.event_query = event_query;
		ops.event_query_ungated = event_query_ungated;
		ops.event_wait_ungated = event_wait_ungated;
		ops.ctx_synchronize = ctx_synchronize;
		ops.page_map = page_map;
		ops.page_unmap = page_unmap_of_any;
		ops.now_ns = now_ns;
		ops.sleep_ns = sleep_ns;
		cm_ring_break(&ops);
	}
	return &ops;
}

__attribute__((weak)) void __wrap_cm_ordered_settle(struct cm_heap *heap)
{
	__real_cm_ordered_settle(heap);
	prepare();
	checker.allocator_settles();
}

/* Behind a wait of the program that has succeeded. */
void __wrap_cm_cache_end_wait(const struct cm_program_wait *wait)
{
	prepare();
	checker.allocator_is_told();
	__real_cm_cache_end_wait(wait);
}

void __wrap_cm_paged_return_forgotten(struct cm_cache *cache)
{
	context_is_gone = true;
	__real_cm_paged_return_forgotten(cache);
	context_is_gone = false;
}

/* As on large devices, already for requests that the small ones here have room for. */
uint32_t __wrap_cm_paged_handle_pages(uint32_t pages, uint64_t room)
{
	(void)room;
	return pages < 4 ? 1 : pages;
}
