/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/unwind.h"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/unit/chain.h"
#include "tests/unit/cmocka_all.h"

#define FRAMES_MAX 1024

uint64_t trail[TRAIL_MAX];
size_t trail_count;

/* The walk's result at the end of the chain, and that of the C runtime's own walk. */
static uint64_t frames[FRAMES_MAX];
static size_t frame_count;
static size_t frame_limit;
static bool frame_cut;
static void *expected[FRAMES_MAX];
static int expected_count;

static const struct cm_unwind_skip skip_nothing;
static uint64_t unloads = 1;

__attribute__((noinline)) static void look(void)
{
	TRAIL_ADD();
	expected_count = backtrace(expected, FRAMES_MAX);
	frame_count = cm_unwind(&skip_nothing, unloads, frames, frame_limit, &frame_cut);
	__asm__ __volatile__("" : : : "memory");
}

static void begin(void)
{
	trail_count = 0;
	frame_count = 0;
	frame_limit = FRAMES_MAX;
	memset(frames, 0, sizeof(frames));
}

/* The first frame is look() itself, at two different calls in the two walks; a sanitizer adds a
 * frame before it. */
static void assert_like_the_runtime(void)
{
	size_t i, before = 0;

	while (before < 2 && frames[1] != (uintptr_t)expected[before + 1])
		before++;
	for (i = 1; i < frame_count && i + before < (size_t)expected_count; i++)
		if (frames[i] != (uintptr_t)expected[i + before])
			fail_msg("frame %zu is %#llx, want %p", i, (unsigned long long)frames[i],
				 expected[i + before]);
	assert_int_equal(frame_count + before, expected_count);
}

/* The trail backwards. It does not contain libc's frames in between. */
static void assert_like_the_trail(void)
{
	size_t at = 0, i = trail_count;

	while (i-- > 0) {
		while (at < frame_count && frames[at] != trail[i])
			at++;
		if (at == frame_count)
			fail_msg("call %zu of %zu is not in the stack, or in another order", i,
				 trail_count);
		at++;
	}
	/* All our frames up to libc's are there, so none is missing in between. */
	assert_int_equal(frames[1], trail[trail_count - 1]);
	assert_int_equal(frames[2], trail[trail_count - 2]);
}

static const struct {
	const char *name;
	int (*run)(unsigned depth, chain_fn *end);
} variants[] = {
	{"O0", chain_O0}, {"O0_omit", chain_O0_omit},
	{"O2", chain_O2}, {"O2_frame", chain_O2_frame},
	{"O3", chain_O3},
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

CM_TEST(the_stack_is_what_was_called)
{
	unsigned depth;
	size_t i;

	for (i = 0; i < VARIANTS; i++) {
		for (depth = 0; depth < 60; depth += 7) {
			begin();
			(void)variants[i].run(depth, look);
			assert_like_the_trail();
			assert_like_the_runtime();
			assert_false(frame_cut);
			assert_true(frame_count > trail_count);
		}
	}
}

/* The second walk uses cached rules; the third runs after they were dropped. */
CM_TEST(a_stack_is_the_same_with_cached_rules)
{
	size_t i, j;

	for (i = 0; i < VARIANTS; i++) {
		for (j = 0; j < 3; j++) {
			if (j == 2)
				unloads++;
			begin();
			(void)variants[i].run(20, look);
			assert_like_the_trail();
			assert_like_the_runtime();
		}
	}
}

CM_TEST(a_deep_stack_is_cut_at_its_far_end)
{
	static uint64_t whole[FRAMES_MAX];
	size_t count;

	begin();
	(void)chain_O2(30, look);
	memcpy(whole, frames, sizeof(whole));
	count = frame_count;
	begin();
	frame_limit = 10;
	(void)chain_O2(30, look);
	assert_true(frame_cut);
	assert_int_equal(frame_count, 10);
	assert_memory_equal(frames + 1, whole + 1, 9 * sizeof(frames[0]));
	begin();
	frame_limit = count;
	(void)chain_O2(30, look);
	assert_false(frame_cut);
	assert_int_equal(frame_count, count);
}

static void *run_in_thread(void *arg)
{
	(void)chain_O2(20, look);
	return arg;
}

CM_TEST(a_thread_has_its_own_stack)
{
	pthread_t thread;

	begin();
	assert_int_equal(pthread_create(&thread, NULL, run_in_thread, NULL), 0);
	(void)pthread_join(thread, NULL);
	assert_like_the_trail();
	assert_like_the_runtime();
}

static ucontext_t outside, inside;

static void run_in_fibre(void)
{
	(void)chain_O2_frame(20, look);
	(void)swapcontext(&inside, &outside);
}

/* A stack that the program made, with nothing readable after its end. */
CM_TEST(a_fibre_has_its_own_stack)
{
	const size_t bytes = 512 << 10, page = (size_t)sysconf(_SC_PAGESIZE);
	char *stack = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(stack != MAP_FAILED);
	assert_int_equal(mprotect(stack + page, bytes, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(getcontext(&inside), 0);
	inside.uc_stack.ss_sp = stack + page;
	inside.uc_stack.ss_size = bytes;
	inside.uc_link = &outside;
	makecontext(&inside, run_in_fibre, 0);
	begin();
	assert_int_equal(swapcontext(&outside, &inside), 0);
	assert_like_the_trail();
	(void)munmap(stack, bytes + 2 * page);
}

static uint64_t caller_of_handler;

static void handle(int signal)
{
	(void)signal;
	caller_of_handler = (uintptr_t)__builtin_return_address(0);
	(void)chain_O2(3, look);
}

/* The interrupted function may have no frame pointer: it alone is missing. */
CM_TEST(a_walk_ends_at_a_signal)
{
	struct sigaction action = {.sa_handler = handle}, old;

	begin();
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	(void)raise(SIGUSR1);
	(void)sigaction(SIGUSR1, &old, NULL);
	assert_like_the_trail();
	assert_true(frame_count < (size_t)expected_count);
#if defined(__x86_64__)
	assert_int_equal(frames[frame_count - 1], caller_of_handler);
#endif
}

CM_TEST(own_frames_are_skipped)
{
	struct cm_unwind_skip skip;

	begin();
	(void)chain_O2(3, look);
	skip.start = frames[0] - 1;
	skip.end = frames[0] + 1;
	/* From the same address, which now counts as our own. */
	frame_count = cm_unwind(&skip, unloads, frames, FRAMES_MAX, &frame_cut);
	assert_true(frame_count > 1);
	skip.start = (uintptr_t)own_frames_are_skipped;
	skip.end = skip.start + 4096;
	frame_count = cm_unwind(&skip, unloads, frames, FRAMES_MAX, &frame_cut);
	assert_true(frame_count > 1);
	assert_false(frames[0] >= skip.start && frames[0] < skip.end);
}

#if defined(__x86_64__)

/* Code generated at run time, in no object. */
static void run_code(const uint8_t *code, size_t bytes, chain_fn *callee)
{
	typedef void code_fn(chain_fn * callee);
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	code_fn *run;

	assert_true((void *)page != MAP_FAILED);
	memcpy(page, code, bytes);
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	memcpy(&run, &page, sizeof(run));
	run(callee);
	(void)munmap(page, 4096);
}

static void end_of_chain(void)
{
	(void)chain_O2(3, look);
}

CM_TEST(code_made_at_run_time_is_passed_by_its_frame_pointer)
{
	/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
	size_t i, mine = 0;

	begin();
	run_code(code, sizeof(code), end_of_chain);
	assert_like_the_trail();
	for (i = 0; i < frame_count; i++)
		mine += frames[i] - (uintptr_t)run_code < 4096;
	assert_true(mine >= 1);
}

/* Whatever the frame pointer register holds, the walk ends and touches nothing. */
CM_TEST(code_without_a_frame_pointer_ends_the_walk_safely)
{
	static const uint64_t values[] = {0,
					  1,
					  0x10,
					  0xffffffffffffffff,
					  0xfffffffffffffff8,
					  0x4141414141414141,
					  0x7fffffffeff8,
					  0x8000000000000000};
	/* push rbp; mov rbp, VALUE; call rdi; pop rbp; ret */
	uint8_t code[] = {0x55, 0x48, 0xbd, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		memcpy(code + 3, &values[i], sizeof(values[i]));
		begin();
		run_code(code, sizeof(code), end_of_chain);
		assert_like_the_trail();
	}
}

/* A frame pointer that leads to unreadable memory, to itself, or into a circle. */
CM_TEST(frame_pointers_that_lead_astray_end_the_walk)
{
	uint8_t code[] = {0x55, 0x48, 0xbd, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
	uint64_t *pages = mmap((void *)0x7fff00000000, 8192, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t at;
	size_t i;

	assert_true((void *)pages != MAP_FAILED);
	assert_int_equal(munmap(pages + 512, 4096), 0);
	for (i = 0; i < 512; i++)
		pages[i] = (uintptr_t)&pages[i & ~1ul];
	for (i = 500; i < 512; i++) {
		at = (uintptr_t)&pages[i];
		memcpy(code + 3, &at, sizeof(at));
		begin();
		run_code(code, sizeof(code), end_of_chain);
		assert_like_the_trail();
	}
	(void)munmap(pages, 4096);
}

/* The runtime's own walk does not survive this. */
static void look_alone(void)
{
	TRAIL_ADD();
	frame_count = cm_unwind(&skip_nothing, unloads, frames, FRAMES_MAX, &frame_cut);
	__asm__ __volatile__("" : : : "memory");
}

/* Calls `end` with a frame pointer of the caller's, and rules that trust it. */
void with_foreign_frame(chain_fn *end, uint64_t frame);
__asm__(".text\n"
	".type with_foreign_frame, @function\n"
	"with_foreign_frame:\n"
	".cfi_startproc\n"
	"	push %rbp\n"
	"	mov %rsi, %rbp\n"
	".cfi_def_cfa %rbp, 16\n"
	".cfi_offset %rbp, -16\n"
	"	call *%rdi\n"
	"	pop %rbp\n"
	".cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size with_foreign_frame, . - with_foreign_frame\n");

/* Calls `end` on another stack; its rules are those of a function that has stayed on its own, and
 * has some 8 KiB there. */
void on_stack(chain_fn *end, void *top);
__asm__(".text\n"
	".type on_stack, @function\n"
	"on_stack:\n"
	".cfi_startproc\n"
	"	push %rbx\n"
	"	mov %rsp, %rbx\n"
	"	mov %rsi, %rsp\n"
	".cfi_def_cfa %rsp, 8192\n"
	".cfi_offset %rbp, -24\n"
	"	call *%rdi\n"
	"	mov %rbx, %rsp\n"
	"	pop %rbx\n"
	".cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size on_stack, . - on_stack\n");

CM_TEST(wrong_rules_end_the_walk)
{
	static const uint64_t values[] = {0x10,
					  0x4141414141414140,
					  0x7ffffffff000,
					  0x7fffffffffffff00,
					  0xfffffffffffffff0,
					  0xffffffffffffffe0};
	uint64_t here = (uintptr_t)__builtin_frame_address(0);
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		begin();
		with_foreign_frame(look_alone, values[i]);
		assert_int_equal(frames[0] - (uintptr_t)look_alone < 4096, 1);
		assert_true(frame_count >= 2 && frame_count < 10);
	}
	/* Up to the end of the thread's stack, and beyond it. */
	for (i = 0; i < 4096; i++) {
		begin();
		with_foreign_frame(look_alone, (here & ~UINT64_C(15)) + i * 4096);
		assert_true(frame_count >= 2);
	}
}

/* A stack of the program's, with nothing readable after its end, that goes and comes back smaller:
 * what was readable once is not taken for granted. */
CM_TEST(wrong_rules_of_another_stack_end_the_walk)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 64 * page;
	char *stack = mmap(NULL, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t size;

	assert_true(stack != MAP_FAILED);
	for (size = bytes; size >= 16 * page; size -= page) {
		assert_int_equal(mprotect(stack, size, PROT_READ | PROT_WRITE), 0);
		assert_int_equal(mprotect(stack + size, bytes + page - size, PROT_NONE), 0);
		begin();
		on_stack(look_alone, stack + size - 64);
		assert_true(frame_count == 2 && !frame_cut);
		begin();
		on_stack(look_alone, stack + size - 10 * page);
		assert_true(frame_count >= 2);
	}
	(void)munmap(stack, bytes + page);
}

#endif

#define THREADS 4
#define ROUNDS  2000

/* Threads walk while others drop the cached rules. */
static void *walk_often(void *arg)
{
	uint64_t own[64], again[64];
	bool cut;
	size_t i, n, m;

	for (i = 0; i < ROUNDS; i++) {
		n = cm_unwind(&skip_nothing, i / 100, own, 64, &cut);
		m = cm_unwind(&skip_nothing, i / 100, again, 64, &cut);
		if (n != m || n < 2 || memcmp(own + 1, again + 1, (n - 1) * sizeof(own[0])) != 0)
			*(bool *)arg = true;
	}
	return NULL;
}

CM_TEST(threads_do_not_disturb_each_other)
{
	pthread_t threads[THREADS];
	bool wrong[THREADS] = {0};
	int i;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, walk_often, &wrong[i]), 0);
	for (i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	for (i = 0; i < THREADS; i++)
		assert_false(wrong[i]);
}
