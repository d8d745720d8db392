/* SPDX-License-Identifier: MIT */
/*
 * Names that events bear, and recording as the program itself switches it: cudamem.h, and NVTX as
 * its own header calls it.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/command_client.h"
#include "tests/preload/api.h"
#include "tests/preload/driver.h"
#include "tests/preload/play.h"
#include "tests/preload/record/history.h"
#include "tests/unit/cmocka_all.h"

#if CM_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#define SECOND UINT64_C(1000000000)

static struct cm_reader *reader;

static struct cm_driver cuda;

static struct cm_api api;

static void look_up(void)
{
	cm_api_open(&api);
	cm_driver_open(&cuda, 1);
}

static void touch(void)
{
	CUdeviceptr block;

	CM_MUST(!cuda.alloc(&block, 1000) && !cuda.free(block));
}

static void begin(void)
{
	look_up();
	touch();
	reader = history_open(getenv("REGIONS"), (unsigned)getpid());
}

/* The name that an event bears now. */
static void must_be_named(const char *want)
{
	struct cm_event event;
	char path[2000], *text;

	touch();
	event = history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC);
	history_text(reader, event.annotation, path, sizeof(path));
	text = strrchr(path, CM_RANGE_SPLIT) ? strrchr(path, CM_RANGE_SPLIT) + 1 : path;
	if (strcmp(text, want) != 0)
		(void)fprintf(stderr, "is \"%s\", want \"%s\"\n", text, want);
	CM_MUST(!strcmp(text, want));
	/* A free is named by where it is freed. */
	event = history_last(reader, CM_TABLE_EVENT, CM_ACTION_FREE_REQUESTED);
	history_text(reader, event.annotation, path, sizeof(path));
	CM_MUST(!strcmp(strrchr(path, CM_RANGE_SPLIT) ? strrchr(path, CM_RANGE_SPLIT) + 1 : path,
			want));
}

/* The same with all ranges around it. */
static void must_be_in(const char *want)
{
	struct cm_event event;
	char path[2000];

	touch();
	event = history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC);
	history_text(reader, event.annotation, path, sizeof(path));
	CM_MUST(!strcmp(path, want));
}

CM_ROLE(own)
{
	begin();
	must_be_named("");
	CM_MUST(api.annotation_pop() == -1);
	api.annotation_push("outer");
	must_be_named("outer");
	api.annotation_push("inner");
	must_be_named("inner");
	must_be_in("outer\x1f"
		   "inner");
	CM_MUST(api.annotation_pop() == 1);
	must_be_named("outer");
	CM_MUST(api.annotation_pop() == 0);
	must_be_named("");
	api.annotation_push(NULL);
	must_be_named("");
	CM_MUST(api.annotation_pop() == 0 && api.annotation_pop() == -1);
}

/* Beyond what is kept the last kept name stays, and every pop finds its push. */
CM_ROLE(deep)
{
	char name[16];
	int i;

	begin();
	for (i = 0; i < 50; i++) {
		(void)snprintf(name, sizeof(name), "level %d", i);
		api.annotation_push(name);
	}
	must_be_named("level 31");
	for (i = 49; i >= 0; i--) {
		CM_MUST(api.annotation_pop() == i);
		(void)snprintf(name, sizeof(name), "level %d", i > 32 ? 31 : i - 1);
		must_be_named(i ? name : "");
	}
	CM_MUST(api.annotation_pop() == -1);
}

static void *name_in_thread(void *arg)
{
	CM_MUST(!cuda.set_current(cuda.context[0]));
	must_be_named("");
	api.annotation_push(arg);
	must_be_named(arg);
	return NULL;
}

CM_ROLE(threads)
{
	char name[] = "the other's";
	pthread_t thread;

	begin();
	api.annotation_push("main's");
	CM_MUST(!pthread_create(&thread, NULL, name_in_thread, name));
	(void)pthread_join(thread, NULL);
	must_be_named("main's");
}

CM_ROLE(fork)
{
	pid_t child;

	begin();
	api.annotation_push("before");
	child = fork();
	if (!child) {
		api.annotation_push("child");
		CM_MUST(api.annotation_pop() == 1 && api.annotation_pop() == 0 &&
			api.annotation_pop() == -1);
		exit(0);
	}
	cm_wait_for_child(child);
	must_be_named("before");
}

static const struct cm_record *settings(void)
{
	CM_MUST(!cm_reader_refresh(reader));
	return &reader->header.record;
}

static uint64_t count_events(void)
{
	struct cm_device_row row;
	bool torn;

	do
		CM_MUST(!cm_reader_read_device(reader, 0, &row, &torn));
	while (torn);
	return row.event_next - row.event_cleared;
}

/* Every parameter of PyTorch's function. */
CM_ROLE(switch)
{
	uint64_t count;

	begin();
	CM_MUST(settings()->events == 1 && settings()->context == CM_CONTEXT_NONE);
	CM_MUST(!history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);

	CM_MUST(!api.record_memory_history("all", "all", "all", UINT64_MAX, 0));
	touch();
	CM_MUST(settings()->context == CM_CONTEXT_ALL);
	CM_MUST(history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
	CM_MUST(history_last(reader, CM_TABLE_EVENT, CM_ACTION_FREE_REQUESTED).stack !=
		history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);

	CM_MUST(!api.record_memory_history("all", "alloc", "python", 5, 1));
	CM_MUST(count_events() == 0);
	CM_MUST(settings()->max_entries == 5 && settings()->stacks == CM_STACKS_PYTHON);
	touch();
	CM_MUST(!history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);

	count = count_events();
	CM_MUST(count > 0);
	CM_MUST(!api.record_memory_history("state", "state", "all", UINT64_MAX, 0));
	touch();
	CM_MUST(count_events() == count && !settings()->events);

	CM_MUST(!api.record_memory_history(NULL, "all", "all", UINT64_MAX, 0));
	touch();
	CM_MUST(count_events() == count && settings()->context == CM_CONTEXT_NONE);
}

/* How a tool's command is answered. */
static int ask_by_command(uint64_t set, uint64_t values, uint64_t max_entries)
{
	struct cm_command command = {.code = CM_COMMAND_RECORD, .arg = {set, values, max_entries}};

	return cm_client_send(reader, &command, 60 * SECOND);
}

CM_ROLE(refuse)
{
	const uint64_t all = CM_RECORD_SET_EVENTS | CM_RECORD_SET_CONTEXT | CM_RECORD_SET_STACKS |
			     CM_RECORD_SET_MAX_ENTRIES | CM_RECORD_CLEAR;

	begin();
	CM_MUST(api.record_memory_history("some", "all", "all", UINT64_MAX, 1) == -EINVAL);
	CM_MUST(api.record_memory_history("all", "allocs", "all", UINT64_MAX, 1) == -EINVAL);
	CM_MUST(api.record_memory_history("all", "all", "c++", UINT64_MAX, 1) == -EINVAL);
	CM_MUST(api.record_memory_history("all", "all", NULL, UINT64_MAX, 1) == -EINVAL);
	CM_MUST(api.record_memory_history("all", "all", "all", 0, 1) == -EINVAL);
	CM_MUST(ask_by_command(all, cm_record_pack(2, CM_CONTEXT_ALL, 0), 1) == -EINVAL);
	CM_MUST(ask_by_command(all, cm_record_pack(1, CM_CONTEXT_COUNT, 0), 1) == -EINVAL);
	CM_MUST(ask_by_command(all, cm_record_pack(1, CM_CONTEXT_ALL, CM_STACKS_COUNT), 1) ==
		-EINVAL);
	CM_MUST(ask_by_command(all, cm_record_pack(1, CM_CONTEXT_ALL, 0), 0) == -EINVAL);
	/* Nothing was changed. */
	CM_MUST(settings()->context == CM_CONTEXT_NONE && count_events() > 0);
}

static int record_first(void)
{
	cm_api_open(&api);
	return api.record_memory_history("all", "alloc", "all", UINT64_MAX, 0);
}

/* It is the one function that is of use before the program has asked for any of the driver's. */
CM_ROLE(early)
{
	CM_MUST(dlopen(getenv("DRIVER"), RTLD_NOW));
	CM_MUST(!record_first());
	look_up();
	touch();
	reader = history_open(getenv("REGIONS"), (unsigned)getpid());
	CM_MUST(history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
}

/* Too early for a machine without a driver; but one that comes later is not missed. */
CM_ROLE(too_early)
{
	if (dlopen("libcuda.so.1", RTLD_NOW))
		return; /* no such machine */
	CM_MUST(record_first() == -ENODEV && !cm_count_regions());
	play_early();
}

/* Neither the loader nor what is recorded is waited for by who holds the other. */
CM_ROLE(while_opened)
{
	pthread_t *thread;
	void *library;
	int *result;

	begin();
	library = dlopen(getenv("OPENED"), RTLD_NOW);
	CM_MUST(library);
	CM_LOOK_UP(library, "opened_thread", thread);
	CM_LOOK_UP(library, "opened_result", result);
	CM_MUST(!pthread_join(*thread, NULL));
	CM_MUST(result[0] == 0 && result[1] == 0);
	touch();
	CM_MUST(history_last(reader, CM_TABLE_EVENT, CM_ACTION_ALLOC).stack);
}

CM_ROLE(off)
{
	look_up();
	CM_MUST(api.record_memory_history("all", "alloc", "all", UINT64_MAX, 0) == -ENODEV);
	api.annotation_push("name");
	touch();
	CM_MUST(api.annotation_pop() == 0);
}

#if CM_HAVE_NVTX

static nvtxEventAttributes_t attributes_of(const char *text)
{
	nvtxEventAttributes_t attributes = {0};

	attributes.version = NVTX_VERSION;
	attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
	attributes.message.ascii = text;
	return attributes;
}

CM_ROLE(nvtx)
{
	nvtxEventAttributes_t attributes = attributes_of("with attributes");
	nvtxDomainHandle_t one, two;

	begin();
	CM_MUST(nvtxRangePushA("step") == 0);
	must_be_named("step");
	CM_MUST(nvtxRangePushEx(&attributes) == 1);
	must_be_named("with attributes");
	/* In an order that no stack has: each domain ends its own. */
	one = nvtxDomainCreateA("one");
	two = nvtxDomainCreateA("two");
	CM_MUST(one && two && one != two);
	CM_MUST(nvtxDomainRangePushEx(one, &attributes) == 0);
	attributes = attributes_of("two's");
	CM_MUST(nvtxDomainRangePushEx(two, &attributes) == 0);
	must_be_named("two's");
	CM_MUST(nvtxDomainRangePop(one) == 0);
	must_be_named("two's");
	CM_MUST(nvtxDomainRangePop(two) == 0);
	must_be_named("with attributes");
	attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	attributes.message.registered = nvtxDomainRegisterStringA(one, "registered");
	CM_MUST(nvtxDomainRangePushEx(one, &attributes) == 0);
	must_be_named("registered");
	CM_MUST(nvtxDomainRangePop(one) == 0);
	CM_MUST(nvtxRangePushW(L"\u00fcber \u20ac \U0001f600") == 2);
	must_be_named("\u00fcber \u20ac \U0001f600");
	CM_MUST(nvtxRangePop() == 2 && nvtxRangePop() == 1 && nvtxRangePop() == 0);
	must_be_named("");
	/* What is not asked for passes. */
	nvtxMarkA("mark");
	nvtxRangeEnd(nvtxRangeStartA("across threads"));
	must_be_named("");
	nvtxDomainDestroy(one);
	nvtxDomainDestroy(two);
}

/* Without the variable NVTX finds no tool, and nothing is named. */
CM_ROLE(nvtx_alone)
{
	begin();
	(void)nvtxRangePushA("step");
	must_be_named("");
	(void)nvtxRangePop();
}

CM_PLAY_TEST(ranges_of_nvtx_name_what_is_done_in_them)
{
	char more[PATH_MAX + 32];

	(void)snprintf(more, sizeof(more), "NVTX_INJECTION64_PATH=%s", getenv("MODULE"));
	cm_play(state, "nvtx", "", more);
}

CM_PLAY(without_its_variable_nvtx_is_left_alone, "nvtx_alone", "", NULL)

#else

CM_PLAY_TEST(ranges_of_nvtx_name_what_is_done_in_them)
{
	cm_skip("the CUDA headers here have no nvtx3/nvToolsExt.h");
}

CM_PLAY_TEST(without_its_variable_nvtx_is_left_alone)
{
	cm_skip("the CUDA headers here have no nvtx3/nvToolsExt.h");
}

#endif

CM_PLAY(names_of_the_program_nest, "own", "", NULL)
CM_PLAY(names_nest_deeper_than_is_kept, "deep", "", NULL)
CM_PLAY(threads_have_names_of_their_own, "threads", "", NULL)
CM_PLAY(a_child_ends_what_its_parent_began, "fork", "", NULL)
CM_PLAY(the_program_switches_what_is_recorded, "switch", "", NULL)
CM_PLAY(words_that_are_none_change_nothing, "refuse", "", NULL)
CM_PLAY(recording_can_begin_before_the_first_allocation, "early", "", NULL)
CM_PLAY(recording_can_be_asked_for_before_there_is_a_driver, "too_early", "", "LD_LIBRARY_PATH=")
CM_PLAY(a_library_can_switch_it_while_it_is_opened, "while_opened", "", NULL)
CM_PLAY(a_library_that_does_nothing_says_so, "off", "mode:off", NULL)
