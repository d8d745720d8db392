/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program names to other devices: it is idle by then, and its blocks are reused by
 * event. The libraries by which that is done find their calls unchanged, and the program finds the
 * libraries unchanged.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define LARGE (16 * MIB)

struct status {
	int error;
	int driver_error;
};

typedef void *reg_mr_fn(void *domain, void *addr, size_t bytes, int access);
typedef void *reg_mr_iova_fn(void *domain, void *addr, size_t bytes, uint64_t iova, int access);
typedef int rereg_mr_fn(void *region, int flags, void *domain, void *addr, size_t bytes,
			int access);
typedef struct status buf_register_fn(const void *base, size_t bytes, int flags);
typedef ssize_t read_fn(void *file, void *base, size_t bytes, off_t at, off_t offset);
typedef ssize_t readv_fn(void *file, const struct iovec *list, size_t n, off_t at, unsigned flags);
typedef struct status read_async_fn(void *file, void *base, const size_t *bytes, const off_t *at,
				    const off_t *offset, ssize_t *done, const void *stream);
typedef struct status submit_fn(void *batch, unsigned n, const void *list, unsigned flags);
typedef int pin_fn(void *gdr, unsigned long addr, size_t bytes, uint64_t token, uint32_t space,
		   void *handle);
typedef void *umem_fn(void *context, const void *in);
typedef int init_fn(unsigned int flags, void *attributes);

static void *libraries, *verbs;

static void *need(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	CM_MUST(found);
	return found;
}

static void open_libraries(void)
{
	libraries = dlopen(getenv("LIBRARIES"), RTLD_NOW | RTLD_LOCAL);
	verbs = dlopen(getenv("VERBS"), RTLD_NOW | RTLD_LOCAL);
	CM_MUST(libraries && verbs);
}

/* One for each call of naming.def that has a form of its own. */
static void by_reg_mr(void *addr)
{
	CM_MUST((*(reg_mr_fn *)need(verbs, "ibv_reg_mr"))(NULL, addr, LARGE, 0) == (void *)11);
}

static void by_old_reg_mr(void *addr)
{
	reg_mr_fn *old = dlvsym(verbs, "ibv_reg_mr", "IBVERBS_1.0");

	CM_MUST(old && old(NULL, addr, LARGE, 0) == (void *)10);
}

static void by_reg_mr_iova(void *addr)
{
	reg_mr_iova_fn *iova = need(verbs, "ibv_reg_mr_iova");
	reg_mr_iova_fn *iova2 = need(verbs, "ibv_reg_mr_iova2");

	CM_MUST(iova(NULL, addr, LARGE, 0, 0) == (void *)17);
	CM_MUST(iova2(NULL, addr, LARGE, 0, 0) == (void *)18);
}

static void by_rereg_mr(void *addr)
{
	CM_MUST((*(rereg_mr_fn *)need(verbs, "ibv_rereg_mr"))(NULL, 1, NULL, addr, LARGE, 0) == 11);
}

static void by_caller(void *addr)
{
	void *caller = dlopen(getenv("CALLER"), RTLD_NOW | RTLD_LOCAL);
	void *(*call)(void *addr, size_t bytes);

	CM_MUST(caller);
	call = (void *(*)(void *, size_t))need(caller, "caller_register");
	CM_MUST(call(addr, LARGE) == (void *)11);
}

static void by_buf_register(void *addr)
{
	struct status status = (*(buf_register_fn *)need(libraries, "cuFileBufRegister"))(addr,
											  LARGE, 7);

	CM_MUST(status.error == 7 && status.driver_error == 8);
}

static void by_read(void *addr)
{
	CM_MUST((*(read_fn *)need(libraries, "cuFileRead"))((void *)3, addr, 512, 4, 4096) == 7);
	CM_MUST((*(read_fn *)need(libraries, "cuFileWrite"))((void *)3, addr, 512, 4, 0) == 7);
}

static void by_readv(void *addr)
{
	const struct iovec list[] = {{&libraries, 8}, {addr, 512}};

	CM_MUST((*(readv_fn *)need(libraries, "cuFileReadv"))((void *)1, list, 2, 2, 3) == 6);
}

static void by_read_async(void *addr)
{
	const size_t bytes = 512;
	const off_t zero = 0;
	ssize_t done = 0;
	struct status status = (*(read_async_fn *)need(libraries, "cuFileReadAsync"))(
		NULL, addr, &bytes, &zero, &zero, &done, (void *)5);

	CM_MUST(status.error == 5 && done == 512);
}

static void by_batch(void *addr)
{
	const struct {
		int mode;
		void *base;
		off_t file_offset, offset;
		size_t bytes;
		void *file;
		int opcode;
		void *cookie;
	} list[] = {{.base = &libraries, .bytes = 8}, {.base = addr, .offset = 512, .bytes = 512}};
	struct status status = (*(submit_fn *)need(libraries, "cuFileBatchIOSubmit"))((void *)9, 2,
										      list, 4);

	CM_MUST(status.error == 9 && status.driver_error == 4);
}

static void by_pin(void *addr)
{
	CM_MUST((*(pin_fn *)need(libraries, "gdr_pin_buffer"))(NULL, (unsigned long)addr, LARGE, 4,
							       5, NULL) == 9);
}

static void by_umem(void *addr)
{
	const struct {
		void *addr;
		size_t bytes;
	} in = {addr, LARGE};

	CM_MUST((*(umem_fn *)need(libraries, "mlx5dv_devx_umem_reg_ex"))(&libraries, &in) ==
		&libraries);
}

static bool is_busy(void)
{
	return cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY;
}

/* A block had again behind work on it, by a barrier. */
static CUdeviceptr get_behind_work(CUdeviceptr block)
{
	CUdeviceptr next;

	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	next = cm_get(LARGE);
	CM_MUST(next == block && is_busy());
	return next;
}

/* What was named waits for events, but nobody for it, and what was not is had again at once. */
static void is_reused_by_event(CUdeviceptr block, CUdeviceptr other)
{
	cm_launch_slow(other);
	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	OK(cuMemFree_v2(other));
	CM_MUST(cm_get(32 * MIB) == other);
	CM_MUST(cm_get(LARGE) != block);
	CM_MUST(is_busy());
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(LARGE) == block);
}

/* One call in a process is enough to wait for: so each has a process of its own. */
static void play_call(void (*call)(void *addr))
{
	CUdeviceptr block, other;

	open_libraries();
	cm_open(0);
	other = cm_get(32 * MIB);
	block = get_behind_work(cm_get(LARGE));
	call((void *)block);
	CM_MUST(!is_busy());
	is_reused_by_event(block, other);
}

#define CALL(name)                    \
	CM_ROLE(name)                 \
	{                             \
		play_call(by_##name); \
	}
CALL(reg_mr)
CALL(old_reg_mr)
CALL(reg_mr_iova)
CALL(rereg_mr)
CALL(caller)
CALL(buf_register)
CALL(read)
CALL(readv)
CALL(read_async)
CALL(batch)
CALL(pin)
CALL(umem)

/* By the device, and never again behind a barrier. */
static void is_all_reached(void)
{
	CUdeviceptr block;

	CM_MUST(!is_busy());
	block = cm_get(LARGE);
	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	CM_MUST(cm_get(LARGE) != block && is_busy());
	CM_MUST(cudasim_calls("cuCtxWaitEvent") <= 1);
}

CM_ROLE(nvshmem)
{
	open_libraries();
	cm_open(0);
	(void)get_behind_work(cm_get(LARGE));
	CM_MUST((*(init_fn *)need(libraries, "nvshmemx_hostlib_init_attr"))(6, NULL) == 6);
	is_all_reached();
}

/* Paging on demand names all addresses. */
CM_ROLE(all_addresses)
{
	open_libraries();
	cm_open(0);
	(void)get_behind_work(cm_get(LARGE));
	(void)(*(reg_mr_fn *)need(verbs, "ibv_reg_mr"))(NULL, NULL, SIZE_MAX, 0);
	is_all_reached();
}

/* Before there is any memory. */
CM_ROLE(nvshmem_first)
{
	open_libraries();
	CM_MUST((*(init_fn *)need(libraries, "nvshmemx_hostlib_init_attr"))(6, NULL) == 6);
	cm_open(0);
	is_all_reached();
}

/* The library binds its calls to what it was loaded with. */
CM_ROLE(deeply_bound)
{
	CM_MUST(dlopen(getenv("CALLER"), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
	cm_open(0);
	is_all_reached();
}

CM_ROLE(namespace)
{
	CM_MUST(dlmopen(LM_ID_NEWLM, getenv("LOOSE"), RTLD_NOW));
	cm_open(0);
	is_all_reached();
}

/* Whoever wraps the call himself looks for the next one. */
CM_ROLE(next)
{
	open_libraries();
	cm_open(0);
	(void)get_behind_work(cm_get(LARGE));
	(void)dlsym(RTLD_NEXT, "ibv_reg_mr");
	is_all_reached();
}

extern void *ibv_reg_mr(void *domain, void *addr, size_t bytes, int access) __attribute__((weak));

/* A program tells by these whether the library is there, with us as without. */
CM_ROLE(tests)
{
	reg_mr_fn *volatile weak = ibv_reg_mr;

	CM_MUST(!weak && !dlsym(RTLD_DEFAULT, "ibv_reg_mr"));
	verbs = dlopen(getenv("VERBS"), RTLD_NOW | RTLD_GLOBAL);
	CM_MUST(verbs && !dlsym(verbs, "ibv_reg_nothing"));
	CM_MUST(!dlvsym(verbs, "ibv_reg_mr", "IBVERBS_1.5"));
	CM_MUST(dlsym(RTLD_DEFAULT, "ibv_reg_mr") == dlsym(verbs, "ibv_reg_mr"));
}

/* A function without a version can't be hidden from one who asks for it by its name alone. */
CM_ROLE(absent)
{
	read_fn *read = dlsym(RTLD_DEFAULT, "cuFileRead");
	buf_register_fn *buf_register = dlsym(RTLD_DEFAULT, "cuFileBufRegister");
	pin_fn *pin = dlsym(RTLD_DEFAULT, "gdr_pin_buffer");

	CM_MUST(read && buf_register && pin);
	errno = 0;
	CM_MUST(read(NULL, NULL, 0, 0, 0) == -1 && errno == ENOSYS);
	CM_MUST(buf_register(NULL, 0, 0).error == 5001);
	CM_MUST(pin(NULL, 0, 0, 0, 0, NULL) == ENOSYS);
	CM_MUST(cm_count_entries(getenv("REGIONS"), CM_REGION_PREFIX) == 0);
}

CM_PLAY_TEST(every_call_that_names_memory_is_seen)
{
	static const char *const calls[] = {"reg_mr", "old_reg_mr",   "reg_mr_iova", "rereg_mr",
					    "caller", "buf_register", "read",        "readv",
					    "batch",  "read_async",   "pin",         "umem"};
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		cm_play(state, calls[i], "", NULL);
}

CM_PLAY(nvshmem_reaches_all_memory, "nvshmem", "", NULL)
CM_PLAY(all_addresses_are_all_memory, "all_addresses", "", NULL)
CM_PLAY(what_is_reached_before_the_start_counts, "nvshmem_first", "", NULL)
CM_PLAY(calls_that_are_bound_past_us_count, "deeply_bound", "", NULL)
CM_PLAY(a_library_in_another_namespace_counts, "namespace", "", NULL)
CM_PLAY(a_look_past_us_counts, "next", "", NULL)
CM_PLAY(a_program_finds_only_what_is_there, "tests", "", NULL)
CM_PLAY(a_call_without_its_library_fails, "absent", "", NULL)
