/* SPDX-License-Identifier: MIT */
/*
 * The stacks of a known program, as its region has them: chains of functions compiled with and
 * without frame pointers (tests/unit/chain.h), threads, children, libraries that come and go.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stats/reader.h"
#include "tests/preload/driver.h"
#include "tests/preload/play.h"
#include "tests/preload/record/history.h"
#include "tests/unit/chain.h"
#include "tests/unit/cmocka_all.h"

uint64_t trail[TRAIL_MAX];
size_t trail_count;

static CUdeviceptr block;
static void *pinned;
static struct cm_reader *reader;

static struct cm_driver cuda;

static void begin(void)
{
	cm_driver_open(&cuda, 1);
	CM_MUST(!cuda.alloc(&block, 1000) && !cuda.free(block));
	reader = history_open(getenv("REGIONS"), (unsigned)getpid());
}

__attribute__((noinline)) static void get(void)
{
	TRAIL_ADD();
	CM_MUST(!cuda.alloc(&block, 1000));
	__asm__ __volatile__("" : : : "memory");
}

__attribute__((noinline)) static void put(void)
{
	TRAIL_ADD();
	CM_MUST(!cuda.free(block));
	__asm__ __volatile__("" : : : "memory");
}

__attribute__((noinline)) static void get_pinned(void)
{
	TRAIL_ADD();
	CM_MUST(!cuda.host_alloc(&pinned, 5000, 0));
	__asm__ __volatile__("" : : : "memory");
}

__attribute__((noinline)) static void put_pinned(void)
{
	TRAIL_ADD();
	CM_MUST(!cuda.host_free(pinned));
	__asm__ __volatile__("" : : : "memory");
}

static void call(int (*chain)(unsigned depth, chain_fn *end), chain_fn *end)
{
	trail_count = 0;
	(void)chain(12, end);
}

/* The first frame lies in the function that called the driver, the others are the trail. */
static void must_be_trail(const struct history_stack *stack, chain_fn *end)
{
	size_t at = 0, i = trail_count;
	Dl_info info;

	CM_MUST(dladdr((void *)(uintptr_t)stack->frame[0], &info) && info.dli_fbase);
	CM_MUST(stack->frame[0] - (uintptr_t)end < 256);
	CM_MUST(stack->frame[1] == trail[trail_count - 1]);
	while (i-- > 0) {
		while (at < stack->count && stack->frame[at] != trail[i])
			at++;
		CM_MUST(at < stack->count);
	}
}

static struct history_stack stack_of(uint32_t id)
{
	struct history_stack stack;

	CM_MUST(history_stack(reader, id, &stack));
	return stack;
}

static void must_resolve(const struct history_stack *stack)
{
	char path[4096], own[4096];
	struct cm_module module;
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	uint32_t i;

	CM_MUST(n > 0);
	own[n] = '\0';
	for (i = 0; i < stack->count; i++)
		CM_MUST(history_module(reader, stack->frame[i] - 1, stack->generation, &module));
	CM_MUST(history_module(reader, stack->frame[0] - 1, stack->generation, &module));
	history_text(reader, module.path, path, sizeof(path));
	CM_MUST(!strcmp(path, own));
	/* None of ours are in it, at the near end. */
	for (i = 0; i < stack->count; i++) {
		CM_MUST(history_module(reader, stack->frame[i] - 1, stack->generation, &module));
		history_text(reader, module.path, path, sizeof(path));
		CM_MUST(!strstr(path, "libcudamem"));
	}
}

static int (*const chains[])(unsigned depth, chain_fn *end) = {chain_O0, chain_O0_omit, chain_O2,
							       chain_O2_frame, chain_O3};
#define CHAINS (sizeof(chains) / sizeof(chains[0]))

CM_ROLE(alloc)
{
	struct history_stack stack;
	struct cm_event event;
	size_t i;

	begin();
	for (i = 0; i < CHAINS; i++) {
		call(chains[i], get);
		event = history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC);
		CM_MUST(event.addr == block && event.size == 1000);
		stack = stack_of(event.stack);
		must_be_trail(&stack, get);
		must_resolve(&stack);
		put();
		/* A free bears the stack of its allocation. */
		event = history_last(reader, CM_TABLE_EVENT, CM_ACTION_FREE_REQUESTED);
		stack = stack_of(event.stack);
		trail_count--;
		must_be_trail(&stack, get);
		call(chains[i], get_pinned);
		event = history_last(reader, CM_TABLE_HOST_EVENT, CM_ACTION_ALLOC);
		CM_MUST(event.addr == (uintptr_t)pinned);
		stack = stack_of(event.stack);
		must_be_trail(&stack, get_pinned);
		put_pinned();
	}
}

CM_ROLE(all)
{
	struct history_stack stack;
	struct cm_event event;

	begin();
	get();
	get_pinned();
	call(chain_O2, put);
	event = history_last(reader, CM_TABLE_EVENT, CM_ACTION_FREE_REQUESTED);
	stack = stack_of(event.stack);
	must_be_trail(&stack, put);
	call(chain_O0, put_pinned);
	event = history_last(reader, CM_TABLE_HOST_EVENT, CM_ACTION_FREE_REQUESTED);
	stack = stack_of(event.stack);
	must_be_trail(&stack, put_pinned);
}

/* Equal stacks are there once: the table does not grow. So short that all of it is the chain's. */
CM_ROLE(again)
{
	uint64_t words = 0, count = 0;
	uint32_t id = 0;
	int i;

	begin();
	for (i = 0; i < 100; i++) {
		call(chain_O2, get);
		CM_MUST(!cuda.free(block));
		if (!i) {
			id = history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack;
			words = reader->header.record.stack_words;
			count = reader->header.record.stack_count;
		}
	}
	CM_MUST(id && history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack == id);
	CM_MUST(reader->header.record.stack_words == words);
	CM_MUST(count && reader->header.record.stack_count == count);
	CM_MUST(!reader->header.record.stacks_lost && !reader->header.record.texts_lost);
}

CM_ROLE(off)
{
	begin();
	call(chain_O2, get);
	CM_MUST(!history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
	CM_MUST(!reader->header.record.stack_words);
	CM_MUST(!reader->header.table[CM_TABLE_MODULE].rows);
}

/* Only what was asked for is kept, and that there was more is said. */
CM_ROLE(shallow)
{
	struct history_stack stack;

	begin();
	call(chain_O2, get);
	stack = stack_of(history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
	CM_MUST(stack.count == 3 && stack.flags == CM_STACK_CUT);
	CM_MUST(stack.frame[1] == trail[trail_count - 1]);
	CM_MUST(stack.frame[2] == trail[trail_count - 2]);
}

static void get_once_more(void)
{
	get();
	__asm__ __volatile__("" : : : "memory");
}

static void get_and_so_on(void)
{
	get_once_more();
	__asm__ __volatile__("" : : : "memory");
}

/* Many more stacks than the table has room for. */
CM_ROLE(full)
{
	static chain_fn *const ends[] = {get, get_once_more, get_and_so_on};
	unsigned depth;
	size_t i;

	begin();
	for (depth = 1; depth < 128; depth++) {
		for (i = 0; i < CHAINS * 3; i++) {
			trail_count = 0;
			(void)chains[i / 3](depth, ends[i % 3]);
			CM_MUST(!cuda.free(block));
		}
	}
	CM_MUST(!cm_reader_refresh(reader));
	CM_MUST(reader->header.record.stack_words <= 131072);
	CM_MUST(reader->header.record.stacks_lost > 100);
	CM_MUST(!history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
}

/* A program in C has no frames of Python. */
CM_ROLE(no_python)
{
	begin();
	call(chain_O2, get);
	CM_MUST(!history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
	CM_MUST(reader->header.record.stacks == CM_STACKS_PYTHON);
	CM_MUST(!reader->header.record.stack_words);
}

CM_ROLE(small_texts)
{
	begin();
	CM_MUST(reader->header.table[CM_TABLE_TEXT].capacity == 1u << 20);
}

static void *allocate_in_thread(void *arg)
{
	CUdeviceptr *mine = arg;
	int i;

	CM_MUST(!cuda.set_current(cuda.context[0]));
	for (i = 0; i < 300; i++) {
		CM_MUST(!cuda.alloc(mine, 1000 + (size_t)i));
		CM_MUST(!cuda.free(*mine));
	}
	return NULL;
}

#define THREADS 4

CM_ROLE(threads)
{
	CUdeviceptr blocks[THREADS];
	pthread_t threads[THREADS];
	struct history_stack stack;
	struct cm_event event;
	uint64_t number;
	int i, seen = 0;

	begin();
	for (i = 0; i < THREADS; i++)
		CM_MUST(!pthread_create(&threads[i], NULL, allocate_in_thread, &blocks[i]));
	for (i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	CM_MUST(!cm_reader_refresh(reader));
	for (number = 1; history_event(reader, CM_TABLE_EVENT, number, &event); number++) {
		if (event.action != CM_ACTION_ALLOC || event.thread == (uint32_t)getpid())
			continue;
		stack = stack_of(event.stack);
		CM_MUST(stack.frame[0] - (uintptr_t)allocate_in_thread < 1024);
		seen++;
	}
	CM_MUST(seen == THREADS * 300);
}

/* CUDA does not work in a child; what it asks for in vain leaves no trace in its parent's
 * region. */
CM_ROLE(fork)
{
	struct history_stack stack;
	uint64_t words, texts;
	pid_t child;

	begin();
	call(chain_O2, get);
	CM_MUST(!cm_reader_refresh(reader));
	words = reader->header.record.stack_words;
	texts = reader->header.record.text_bytes;
	child = fork();
	if (!child) {
		CM_MUST(cuda.alloc(&block, 1000) != CUDA_SUCCESS);
		CM_MUST(cuda.free(block) != CUDA_SUCCESS);
		exit(0);
	}
	cm_wait_for_child(child);
	stack = stack_of(history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
	must_be_trail(&stack, get);
	CM_MUST(reader->header.record.stack_words == words);
	CM_MUST(reader->header.record.text_bytes == texts);
	call(chain_O0, get);
	stack = stack_of(history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
	must_be_trail(&stack, get);
}

typedef void plugin_fn(chain_fn *call);

static uint32_t allocate_through(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	plugin_fn *through;
	uint32_t id;

	CM_MUST(library);
	CM_LOOK_UP(library, "plugin_call", through);
	trail_count = 0;
	through(get);
	CM_MUST(!cuda.free(block));
	id = history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack;
	CM_MUST(!dlclose(library));
	return id;
}

static void must_go_through(uint32_t id, const char *library)
{
	struct history_stack stack = stack_of(id);
	struct cm_module module;
	char path[4096];

	CM_MUST(stack.frame[0] - (uintptr_t)get < 256);
	CM_MUST(history_module(reader, stack.frame[1] - 1, stack.generation, &module));
	history_text(reader, module.path, path, sizeof(path));
	CM_MUST(!strcmp(path, library));
}

/* Two libraries that take the same addresses, one after the other: each stack is named by the one
 * that was there when it was recorded. */
CM_ROLE(plugins)
{
	const char *one = getenv("PLUGIN_ONE"), *two = getenv("PLUGIN_TWO");
	uint32_t first, second, third;

	begin();
	first = allocate_through(one);
	second = allocate_through(two);
	third = allocate_through(one);
	must_go_through(first, one);
	must_go_through(second, two);
	must_go_through(third, one);
}

#if defined(__x86_64__)

/* Calls `end` on another stack. Its rules say that it has stayed on its own one, and has some 64
 * KiB there, as those of hand-written code may. */
void on_stack(chain_fn *end, void *top);
__asm__(".text\n"
	".type on_stack, @function\n"
	"on_stack:\n"
	".cfi_startproc\n"
	"	push %rbx\n"
	"	mov %rsp, %rbx\n"
	"	mov %rsi, %rsp\n"
	".cfi_def_cfa %rsp, 65536\n"
	"	call *%rdi\n"
	"	mov %rbx, %rsp\n"
	"	pop %rbx\n"
	".cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size on_stack, . - on_stack\n");

/* The program has done so all along, natively it works; nothing is mapped behind that stack. */
CM_ROLE(switched)
{
	const size_t bytes = 256 << 10;
	char *stack = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct history_stack found;

	CM_MUST((void *)stack != MAP_FAILED && !mprotect(stack, bytes, PROT_READ | PROT_WRITE));
	begin();
	trail_count = 0;
	on_stack(get, stack + bytes - 64);
	found = stack_of(history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
	CM_MUST(found.frame[0] - (uintptr_t)get < 256);
	CM_MUST(found.frame[1] - (uintptr_t)on_stack < 256);
	on_stack(put, stack + bytes - 64);
}

#else

CM_ROLE(switched)
{
	begin();
}

#endif

CM_PLAY(stacks_of_allocations_are_those_of_the_program, "alloc", "stacks:alloc", NULL)
CM_PLAY(stacks_of_frees_are_recorded_where_asked_for, "all", "stacks:all", NULL)
CM_PLAY(the_state_has_stacks_too, "alloc", "stacks:state", NULL)
CM_PLAY(equal_stacks_are_kept_once, "again", "stacks:alloc,stack_depth:10", NULL)
CM_PLAY(without_the_option_no_stack_is_kept, "off", "", NULL)
CM_PLAY(a_stack_is_cut_where_the_depth_says, "shallow", "stacks:alloc,stack_depth:3", NULL)
CM_PLAY(a_full_table_harms_nothing, "full", "stacks:alloc,stack_table_mb:1,stack_depth:256", NULL)
CM_PLAY(stacks_of_python_alone_are_none_in_c, "no_python", "stacks:all,stack_frames:python", NULL)
CM_PLAY(the_table_of_texts_is_as_large_as_asked_for, "small_texts", "text_table_mb:1", NULL)
CM_PLAY(threads_record_their_own_stacks, "threads", "stacks:all", NULL)
/* The child starts a thread, which the thread sanitizer refuses by itself. */
CM_PLAY(a_child_leaves_its_parents_record_alone, "fork", "stacks:all",
	"TSAN_OPTIONS=die_after_fork=0")
CM_PLAY(a_stack_with_wrong_rules_is_cut_short, "switched", "stacks:all", NULL)
CM_PLAY(libraries_that_come_and_go_keep_their_names, "plugins", "stacks:alloc", NULL)
