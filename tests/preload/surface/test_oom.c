/* SPDX-License-Identifier: MIT */
/*
 * What the user is told when device memory is out: for each verdict a program that earns it, on a
 * card of its own or, for OTHERS, on one that it shares.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define LAST_LINE "Later failures get one line each; CUDAMEM_CONF=oom_report:full|line|off\n"

static void must_fail(uint64_t bytes)
{
	CUdeviceptr addr = 77;

	CM_MUST(cuMemAlloc_v2(&addr, bytes) == CUDA_ERROR_OUT_OF_MEMORY);
	CM_MUST(addr == 77);
}

/* 64 MiB in blocks of 9: every other one is freed. */
CM_ROLE(fragmented)
{
	CUdeviceptr addr[6];
	unsigned i;

	cm_open(0);
	for (i = 0; i < 6; i++)
		addr[i] = cm_get(9 * MIB);
	(void)cm_get(MIB - 100);
	for (i = 0; i < 6; i += 2)
		OK(cuMemFree_v2(addr[i]));
	must_fail(30 * MIB);
}

CM_ROLE(full)
{
	cm_open(0);
	(void)cm_get(40 * MIB);
	must_fail(30 * MIB);
}

/* Managed memory counts towards a limit, too. */
CM_ROLE(managed)
{
	CUdeviceptr addr;

	cm_open(0);
	(void)cm_get(20 * MIB);
	OK(cuMemAllocManaged(&addr, 16 * MIB, CU_MEM_ATTACH_GLOBAL));
	must_fail(20 * MIB);
}

static _Atomic bool came_back;

/* It is to end at the first point where it can be cancelled: at none of ours. */
static void *ask_while_cancelled(void *arg)
{
	(void)arg;
	CM_MUST(!pthread_cancel(pthread_self()));
	cm_open(0);
	(void)cm_get(40 * MIB);
	must_fail(30 * MIB);
	came_back = true;
	pthread_testcancel();
	return NULL;
}

CM_ROLE(cancelled)
{
	pthread_t thread;
	void *result;

	CM_MUST(!pthread_create(&thread, NULL, ask_while_cancelled, NULL));
	CM_MUST(!pthread_join(thread, &result));
	CM_MUST(result == PTHREAD_CANCELED && came_back);
	cm_open(0);
	must_fail(30 * MIB);
}

/* Functions that the program exports have names. */
__attribute__((visibility("default"), noinline)) void hold_two(CUdeviceptr *addr);
__attribute__((visibility("default"), noinline)) CUresult want_much(CUdeviceptr *addr);

void hold_two(CUdeviceptr *addr)
{
	OK(cuMemAlloc_v2(&addr[0], 20 * MIB));
	OK(cuMemAlloc_v2(&addr[1], 12 * MIB));
}

CUresult want_much(CUdeviceptr *addr)
{
	CUresult res = cuMemAlloc_v2(addr, 60 * MIB);

	addr[1] = 0;
	return res;
}

CM_ROLE(stacks)
{
	CUdeviceptr addr[2];

	cm_open(0);
	(void)cm_get(8 * MIB);
	hold_two(addr);
	CM_MUST(want_much(addr) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* On a large card amounts are in GiB. */
CM_ROLE(little)
{
	cm_open(0);
	(void)cm_get(512);
	must_fail(((size_t)17 << 10) * MIB);
}

CM_ROLE(too_big)
{
	cm_open(0);
	must_fail(65 * MIB);
}

/* The driver's own. It is not asked again for the same, as nothing has returned to it. */
CM_ROLE(driver)
{
	cm_open(0);
	CM_MUST(!cudasim_fail("cuMemAlloc_v2", 1, CUDA_ERROR_OUT_OF_MEMORY));
	must_fail(30 * MIB);
	(void)cm_get(29 * MIB);
}

/* As above, and the driver does not answer the question either. */
CM_ROLE(driver_is_mute)
{
	unsigned i;

	cm_open(0);
	(void)cm_get(MIB);
	for (i = 1; i <= 3; i++)
		CM_MUST(!cudasim_fail("cuMemAlloc_v2", i, CUDA_ERROR_OUT_OF_MEMORY));
	for (i = 1; i <= 2; i++)
		CM_MUST(!cudasim_fail("cuMemGetInfo_v2", i, CUDA_ERROR_NOT_PERMITTED));
	must_fail(30 * MIB);
}

/* While a stream is captured, what is cached serves only what a block of it is large enough for. */
CM_ROLE(captured)
{
	CUdeviceptr addr[2];
	CUstream stream;
	CUgraph graph;

	cm_open(0);
	addr[0] = cm_get(25 * MIB);
	addr[1] = cm_get(25 * MIB);
	OK(cuMemFree_v2(addr[0]));
	OK(cuMemFree_v2(addr[1]));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	must_fail(40 * MIB);
	OK(cuStreamEndCapture(stream, &graph));
	(void)cm_get(40 * MIB);
}

/* Another process has most of the card, from after this one started. */
CM_ROLE(others)
{
	int ready[2], go[2];
	pid_t other;
	char byte;

	CM_MUST(!pipe(ready) && !pipe(go));
	other = fork();
	CM_MUST(other >= 0);
	if (!other) {
		/* Should the other side fail. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(go[1]);
		CM_MUST(read(go[0], &byte, 1) == 1);
		cm_open(0);
		(void)cm_get(40 * MIB);
		CM_MUST(write(ready[1], "", 1) == 1);
		CM_MUST(read(go[0], &byte, 1) == 0);
		exit(0);
	}
	cm_open(0);
	(void)cm_get(10 * MIB);
	CM_MUST(write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1);
	must_fail(30 * MIB);
	(void)close(go[1]);
	cm_wait_for_child(other);
}

/* The report comes once, and what was short may be there later. */
CM_ROLE(again)
{
	CUdeviceptr addr;

	cm_open(0);
	addr = cm_get(40 * MIB);
	must_fail(30 * MIB);
	must_fail(31 * MIB);
	OK(cuMemFree_v2(addr));
	(void)cm_get(31 * MIB);
	(void)cm_get(8 * MIB);
}

CM_ROLE(probing)
{
	unsigned i;

	cm_open(0);
	for (i = 0; i < 150; i++)
		must_fail(65 * MIB);
	CM_MUST(cm_own_counters(0).scalar[CM_SCALAR_num_ooms] == 150);
}

/* What is counted and recorded beside the report. */
CM_ROLE(counters)
{
	struct cm_device_row row;

	cm_open(0);
	(void)cm_get(40 * MIB);
	must_fail(30 * MIB);
	row = cm_own_counters(0);
	CM_MUST(row.scalar[CM_SCALAR_num_ooms] == 1);
	CM_MUST(row.free_bytes == 24 * MIB);
}

#define CARD "CUDASIM=memory:64M,context:0"

/* The pid varies: its digits become P. */
static void hide_pid(char *text)
{
	char *at = text;

	while ((at = strpbrk(at, "[="))) {
		at += strspn(at, "[=");
		while (*at >= '0' && *at <= '9')
			memmove(at, at + 1, strlen(at));
	}
	at = strstr(text, "cudamemstat show ");
	for (at = at ? at + strlen("cudamemstat show ") : NULL; at && *at != ' ';)
		memmove(at, at + 1, strlen(at));
	at = strstr(text, "cudamemstat report ");
	for (at = at ? at + strlen("cudamemstat report ") : NULL; at && *at != '\n';)
		memmove(at, at + 1, strlen(at));
	at = strstr(text, "--stacks=all -- ");
	for (at = at ? at + strlen("--stacks=all -- ") : NULL; at && *at != '\n';)
		memmove(at, at + 1, strlen(at));
	at = strstr(text, "   at ");
	for (at = at ? at + strlen("   at ") : NULL; at && *at != '\n';)
		memmove(at, at + 1, strlen(at));
	at = strstr(text, "in thread ");
	for (at = at ? at + strlen("in thread ") : NULL; at && *at != ';';)
		memmove(at, at + 1, strlen(at));
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

static void play_on(void **state, const char *role, const char *conf, const char *card)
{
	struct cm_play *play = *state;

	cm_play_under(play, role, conf, card, NULL);
	hide_pid(play->said);
}

/* Every report says first and again why, and comes to its end. */
static void assert_report(void **state, const char *role, const char *conf, const char *card,
			  const char *verdict, const char *reason)
{
	struct cm_play *play = *state;
	char first[64];
	const char *end, *last;

	play_on(state, role, conf, card);
	(void)snprintf(first, sizeof(first), " (%s)\n", verdict);
	end = strchr(play->said, '\n');
	last = strstr(play->said, LAST_LINE);
	if (!end || strncmp(end + 1 - strlen(first), first, strlen(first)) != 0 ||
	    !strstr(play->said, reason) || !last || last[strlen(LAST_LINE)])
		fail_msg("%s:\n%s", verdict, play->said);
}

CM_PLAY_TEST(the_whole_report)
{
	static const char want[] =
		"cudamem[]: out of memory on GPU 0: requested 30.00 MiB, largest block 9.00 "
		"MiB, free and cached 36.00 MiB (FRAGMENTED)\n"
		"==== 31457280 bytes in thread ; the program gets CUDA_ERROR_OUT_OF_MEMORY (2)\n"
		"====   at \n"
		"====\n"
		"==== Why it failed: FRAGMENTED: 36.00 MiB is free or cached, but not in one "
		"block\n"
		"====   Tried: the cache, waiting for freed memory, releasing (0 B), the "
		"driver\n"
		"====   Asked no other process\n"
		"====\n"
		"==== Where GPU 0 went: Simulated CUDA device, 64.00 MiB\n"
		"====     28.00  allocated by this program, 4 blocks (100 B of it rounding)\n"
		"====     28.00  cached by this program, in blocks too small (largest 9.00 MiB)\n"
		"====         0  this program outside the cache (pools, arrays, mapped memory "
		"...)\n"
		"====         0  other processes under cudamem\n"
		"====         0  contexts and libraries, processes without cudamem\n"
		"====      8.00  free\n"
		"====\n"
		"==== What is cached, in MiB\n"
		"====     28.00  fragmented: in segments with live blocks\n"
		"====         0  releasable: in segments without live blocks\n"
		"====         0  pending free: the GPU may still use it\n"
		"====\n"
		"==== Who holds the 28.00 MiB allocated, by block size\n"
		"====     27.00       3 of 9.0M\n"
		"====      1.00       1 of 1.0M\n"
		"====\n"
		"==== What would have made it fit, in MiB\n"
		"====   no   without its limit (memory_limit_mb)            8.00 available\n"
		"====   yes  free and cached memory in one block           36.00 available\n"
		"====   yes  free pages joined (expandable_segments)       32.00 available\n"
		"====   no   without other processes on the GPU             8.00 available\n"
		"====   no   less allocated by this program: there was enough memory\n"
		"====\n"
		"==== Look at it, also when it has ended: cudamemstat report \n"
		"==== and while it runs: cudamemstat show  --map\n"
		"==== To see who holds the memory, run it with\n"
		"====   cudamemstat run --oom oom.cudamem --stacks=all -- \n"
		"==== " LAST_LINE;
	struct cm_play *play = *state;

	play_on(state, "fragmented", "", CARD);
	assert_string_equal(play->said, want);
}

/* The tool finds the process there when it has ended. */
CM_PLAY_TEST(the_folder_of_the_region_is_told)
{
	struct cm_play *play = *state;
	char want[PATH_MAX + 64];

	cm_play_under(play, "full", "", CARD, NULL);
	(void)snprintf(want, sizeof(want), "cudamemstat report --dir %s ", play->dir);
	assert_non_null(strstr(play->said, want));
}

CM_PLAY_TEST(each_verdict_is_told)
{
	char card[PATH_MAX + 64];
	struct cm_play *play = *state;

	assert_report(state, "fragmented", "", CARD, "FRAGMENTED",
		      "yes  free and cached memory in one block");
	assert_report(state, "full", "", CARD, "FULL",
		      "FULL: this program uses 40.00 MiB, only 24.00 MiB is free or cached");
	assert_report(state, "too_big", "", CARD, "TOO BIG", "TOO BIG: the GPU has 64.00 MiB");
	assert_null(strstr(play->said, "Who holds"));
	assert_null(strstr(play->said, "====\n====\n"));
	assert_report(state, "driver", "", CARD, "DRIVER", "64.00 MiB is free, and the driver");
	assert_report(state, "driver_is_mute", "", CARD, "DRIVER", "(error 800)");
	assert_non_null(strstr(play->said, "largest block ?, free and cached ? (DRIVER)\n"));
	assert_non_null(strstr(play->said, "         ?  free\n"));
	assert_non_null(strstr(play->said, "less allocated by this program: ? less\n"));
	assert_report(state, "captured", "", CARD, "CAPTURE",
		      "CAPTURE: while a stream is captured what is cached, 52.00 MiB, stays so\n");
	assert_non_null(strstr(play->said, "   Tried: the driver\n"));
	assert_non_null(strstr(play->said, "  yes  the same request before the capture "));
	assert_report(state, "full", "per_process_memory_fraction:0.75", CARD, "LIMIT",
		      "LIMIT: this process may have 48.00 MiB, and has 40.00 MiB\n");
	assert_non_null(strstr(play->said, "requested 30.00 MiB, limit 48.00 MiB, of which 40.00 "
					   "MiB is taken (LIMIT)\n"));
	assert_non_null(strstr(play->said, "joined (expandable_segments)        8.00 available\n"));
	assert_non_null(strstr(play->said, "yes  less allocated by this program: 22.00 MiB less"));
	assert_report(state, "managed", "memory_limit_mb:48", CARD, "LIMIT",
		      "LIMIT: this process may have 48.00 MiB, and has 36.00 MiB\n");
	assert_non_null(strstr(play->said, "Beside these 16.00 MiB of managed memory count"));
	assert_non_null(strstr(play->said, "yes  less allocated by this program: 8.00 MiB less"));
	/* A small limit on a large device: the digits are the limit's. */
	assert_report(state, "full", "memory_limit_mb:48", "CUDASIM=memory:80G,context:0", "LIMIT",
		      "GPU 0 went: Simulated CUDA device, 81920.00 MiB\n");
	assert_non_null(strstr(play->said, "  40.00  allocated by this program, "));
	assert_non_null(strstr(play->said, " 81880.00  free\n"));
	(void)snprintf(card, sizeof(card), "%s,card:%s.card", CARD, play->dir);
	assert_report(state, "others", "", card, "OTHERS",
		      "OTHERS: other processes hold 40.00 MiB; without them it would fit");
	assert_non_null(strstr(play->said, "40.00  other processes under cudamem: 1 (most has "));
	/* Where nobody looks for them they are known all the same. */
	assert_report(state, "others", "peer_processes:off", card, "OTHERS",
		      "OTHERS: other processes hold 40.00 MiB; without them it would fit");
	assert_non_null(strstr(play->said, "40.00  contexts and libraries, processes without"));
	(void)unlink(strrchr(card, ':') + 1);
}

/* What is there is not called nothing. */
CM_PLAY_TEST(little_is_not_zero)
{
	struct cm_play *play = *state;

	assert_report(state, "little", "", "CUDASIM=memory:16G,context:0", "TOO BIG",
		      "TOO BIG: the GPU has 16.00 GiB in total\n");
	assert_non_null(
		strstr(play->said, "     <0.01  allocated by this program, 1 block (0 B of"));
	assert_non_null(strstr(play->said,
			       "     <0.01  cached by this program, in blocks too small "
			       "(largest 2.00 MiB)\n"));
	assert_non_null(strstr(play->said, "Who holds the 512 B allocated, by block size\n"));
	assert_non_null(strstr(play->said, "         0  other processes under cudamem\n"));
	assert_null(strstr(play->said, " 0.00"));
}

/* Who asked, and who holds: by stack where stacks are recorded, the place alone where they are
 * not. */
CM_PLAY_TEST(stacks_are_told)
{
	struct cm_play *play = *state;
	const char *first;

	cm_play_under(play, "stacks", "stacks:alloc", CARD, NULL);
	assert_non_null(strstr(play->said, "==   at want_much test_oom.c:"));
	assert_non_null(strstr(play->said, "Who holds the 40.00 MiB allocated, by stack\n"));
	first = strstr(play->said, "==     20.00       1 hold_two test_oom.c:");
	assert_non_null(first);
	/* One line a call, not a function. */
	assert_non_null(strstr(first, "==     12.00       1 hold_two test_oom.c:"));
	/* How to record them need not be said. */
	assert_null(strstr(play->said, "To see who holds the memory"));
	cm_play_under(play, "stacks", "", CARD, NULL);
	assert_non_null(strstr(play->said, "==   at want_much test_oom.c:"));
	assert_non_null(strstr(play->said, "Who holds the 40.00 MiB allocated, by block size\n"));
}

CM_PLAY_TEST(later_failures_take_a_line)
{
	struct cm_play *play = *state;
	const char *rest;

	play_on(state, "again", "", CARD);
	rest = strstr(play->said, LAST_LINE);
	assert_non_null(rest);
	assert_string_equal(rest + strlen(LAST_LINE),
			    "cudamem[]: out of memory on GPU 0: requested 31.00 MiB, largest "
			    "block 24.00 MiB, free and cached 24.00 MiB (FULL)\n"
			    "cudamem[]: the 31.00 MiB on GPU 0 were allocated at a later "
			    "try\n");
}

CM_PLAY_TEST(every_failure_can_take_a_line)
{
	struct cm_play *play = *state;

	play_on(state, "full", "oom_report:line", CARD);
	assert_string_equal(play->said,
			    "cudamem[]: out of memory on GPU 0: requested 30.00 MiB, largest "
			    "block 24.00 MiB, free and cached 24.00 MiB (FULL)\n");
}

CM_PLAY_TEST(a_thread_is_cancelled_in_nothing_of_ours)
{
	struct cm_play *play = *state;

	play_on(state, "cancelled", "oom_report:line", CARD);
	assert_int_equal(count_lines(play->said), 2);
}

#define LOG "surface_oom.log"

/* More than a pipe's reader keeps. */
static void write_to_a_file(void)
{
	int fd = open(LOG, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(98);
}

CM_PLAY_TEST(a_program_that_probes_does_not_fill_its_log)
{
	static const char last[] = "(TOO BIG); later failures are not reported\n";
	struct cm_play *play = *state;
	char text[32768];
	ssize_t n;
	int fd;

	play->keeps = true;
	cm_play_under(play, "probing", "oom_report:line", CARD, write_to_a_file);
	fd = open(LOG, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	(void)unlink(LOG);
	assert_true(n > (ssize_t)strlen(last));
	text[n] = '\0';
	assert_int_equal(count_lines(text), 100);
	assert_string_equal(text + n - strlen(last), last);
}

CM_PLAY(nothing_is_said_where_nothing_is_wanted, "counters", "oom_report:off", CARD)
CM_PLAY(nothing_is_said_where_the_log_is_off, "counters", "log:off", CARD)

CM_PLAY_TEST(requests_that_pass_are_told_of_too)
{
	assert_report(state, "full", "mode:stats", CARD, "FULL", "FULL: this program uses 40.00");
}
