/* SPDX-License-Identifier: MIT */
/*
 * Processes that share a card: who runs out gets what the others hold idle, nobody waits for one
 * who cannot answer, and what nobody uses goes back by itself. Each case is a process that forks
 * others, all under the library and with regions in one folder.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define PEERS 7

/* Another process, which says when it is ready and ends when it is told to. */
struct other {
	pid_t pid;
	int ready; /* to read */
	int go;    /* to write */
};

/* In the other process: says that it is ready, and waits until it shall go on. */
static int say, hear;

/* What it was told. */
static bool be_ready(void)
{
	bool word;

	CM_MUST(write(say, "", 1) == 1);
	CM_MUST(read(hear, &word, 1) == 1);
	return word;
}

static struct other start(void (*play)(void))
{
	int ready[2], go[2];
	struct other other;

	CM_MUST(!pipe(ready) && !pipe(go));
	other.pid = fork();
	CM_MUST(other.pid >= 0);
	if (!other.pid) {
		/* Should the other side fail. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		say = ready[1];
		hear = go[0];
		play();
		exit(0);
	}
	other.ready = ready[0];
	other.go = go[1];
	return other;
}

static void wait_until_ready(const struct other *other)
{
	char byte;

	CM_MUST(read(other->ready, &byte, 1) == 1);
}

static void tell(const struct other *other, bool word)
{
	CM_MUST(write(other->go, &word, 1) == 1);
}

static void end(const struct other *other, bool word)
{
	tell(other, word);
	cm_wait_for_child(other->pid);
}

static CUresult try_get(uint64_t bytes, CUdeviceptr *ret_addr)
{
	return cuMemAlloc_v2(ret_addr, bytes);
}

static void must_fail(uint64_t bytes)
{
	CUdeviceptr addr;

	CM_MUST(try_get(bytes, &addr) == CUDA_ERROR_OUT_OF_MEMORY);
}

static int64_t scalar(enum cm_scalar which)
{
	return cm_own_counters(0).scalar[which];
}

/* An answer may come too late on a machine that is busy; then the request is made again. */
static void get_in_the_end(uint64_t bytes)
{
	CUdeviceptr addr;

	while (try_get(bytes, &addr) != CUDA_SUCCESS)
		continue;
}

/*
 * Who gives too little in its time is asked again, and may then have given more than was wanted: on
 * a machine that is busy nothing can be said of how much that is. Then it is all played anew, in
 * another process.
 */
#define PLAYS 50
#define LATE  1 /* the status of a play in which somebody was */

static void play_in_time(bool (*play)(void))
{
	int status = LATE, i;
	pid_t child;

	for (i = 0; i < PLAYS && status == LATE; i++) {
		child = fork();
		CM_MUST(child >= 0);
		if (!child) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			exit(play() ? 0 : LATE);
		}
		CM_MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
		status = WEXITSTATUS(status);
	}
	CM_MUST(status == 0);
}

/* What was wanted came with the first answers. */
static bool got_in_time(uint64_t bytes)
{
	return scalar(CM_SCALAR_num_ooms) == 0 && scalar(CM_SCALAR_peer_asks) == 1 &&
	       scalar(CM_SCALAR_peer_bytes_got) == (int64_t)bytes;
}

static void hold_idle(uint64_t bytes, unsigned pieces)
{
	CUdeviceptr addr[8];
	unsigned i;

	cm_open(0);
	for (i = 0; i < pieces; i++)
		addr[i] = cm_get(bytes);
	for (i = 0; i < pieces; i++)
		OK(cuMemFree_v2(addr[i]));
}

/* 50 of the card's 64 MiB. */
static void be_idle(void)
{
	hold_idle(10 * MIB + 1, 4);
	if (!be_ready())
		return;
	CM_MUST(scalar(CM_SCALAR_peer_gives) == 1);
	CM_MUST(scalar(CM_SCALAR_peer_bytes_given) == (int64_t)(24 * MIB));
	CM_MUST(cm_reserved() == (int64_t)(24 * MIB));
}

/* It has 48, 16 are free, and 24 more are wanted, in pieces of 12. */
static bool ask_one(void)
{
	struct other other = start(be_idle);
	bool in_time;

	wait_until_ready(&other);
	cm_open(0);
	get_in_the_end(38 * MIB);
	in_time = got_in_time(24 * MIB);
	end(&other, in_time);
	return in_time;
}

CM_ROLE(two)
{
	play_in_time(ask_one);
}

static void be_one_of_many(void)
{
	hold_idle(10 * MIB + 1, 1);
	if (be_ready())
		CM_MUST(cm_reserved() == 0);
}

/* 7 x 12 of the card's 96 MiB; all of it is wanted. */
static bool ask_seven(void)
{
	struct other other[PEERS];
	bool in_time;
	unsigned i;

	for (i = 0; i < PEERS; i++)
		other[i] = start(be_one_of_many);
	for (i = 0; i < PEERS; i++)
		wait_until_ready(&other[i]);
	cm_open(0);
	get_in_the_end(94 * MIB);
	in_time = got_in_time(PEERS * 12 * MIB);
	for (i = 0; i < PEERS; i++)
		end(&other[i], in_time);
	return in_time;
}

CM_ROLE(eight)
{
	play_in_time(ask_seven);
}

/* Both fail, and ask each other while they do, again and again. */
#define ROUNDS 20

static void fail_often(void)
{
	unsigned i;

	for (i = 0; i < ROUNDS; i++)
		must_fail(30 * MIB);
}

static void fail_too(void)
{
	cm_open(0);
	(void)cm_get(24 * MIB);
	OK(cuMemFree_v2(cm_get(MIB)));
	(void)be_ready();
	fail_often();
	(void)be_ready();
}

CM_ROLE(each_other)
{
	struct other other = start(fail_too);

	wait_until_ready(&other);
	cm_open(0);
	(void)cm_get(24 * MIB);
	OK(cuMemFree_v2(cm_get(MIB)));
	tell(&other, true);
	fail_often();
	wait_until_ready(&other);
	end(&other, true);
}

static void be_idle_for_long(void)
{
	hold_idle(10 * MIB + 1, 4);
	(void)be_ready();
}

/* It holds 48 of 64 MiB and cannot answer; it can later. */
CM_ROLE(stopped)
{
	struct other other = start(be_idle_for_long);
	int status;

	wait_until_ready(&other);
	cm_open(0);
	CM_MUST(!kill(other.pid, SIGSTOP));
	CM_MUST(waitpid(other.pid, &status, WUNTRACED) == other.pid && WIFSTOPPED(status));
	must_fail(30 * MIB);
	CM_MUST(scalar(CM_SCALAR_peer_asks) == 0);
	CM_MUST(!kill(other.pid, SIGCONT));
	CM_MUST(waitpid(other.pid, &status, WCONTINUED) == other.pid && WIFCONTINUED(status));
	get_in_the_end(30 * MIB);
	end(&other, true);
}

static void be_ready_at_the_end(void)
{
	(void)be_ready();
}

/* That comes after the library's own handler. */
static void be_idle_and_end(void)
{
	CM_MUST(!atexit(be_ready_at_the_end));
	hold_idle(10 * MIB + 1, 4);
}

/* It holds 48 of 64 MiB until it is gone. */
CM_ROLE(ending)
{
	struct other other = start(be_idle_and_end);

	wait_until_ready(&other);
	cm_open(0);
	must_fail(30 * MIB);
	end(&other, true);
	(void)cm_get(30 * MIB);
}

/* For this process alone, before it starts CUDA. */
static void configure(const char *more)
{
	char conf[PATH_MAX + 64];

	(void)snprintf(conf, sizeof(conf), "region_dir:%s,decay_seconds:off,%s", getenv("REGIONS"),
		       more);
	CM_MUST(!setenv("CUDAMEM_CONF", conf, 1));
}

static void be_idle_and_refuse(void)
{
	configure("peer_processes:off");
	be_idle_for_long();
	CM_MUST(scalar(CM_SCALAR_peer_gives) == 0);
	CM_MUST(cm_reserved() == (int64_t)(48 * MIB));
}

static void be_idle_in_a_capture(void)
{
	CUstream stream;
	CUgraph graph;

	hold_idle(10 * MIB + 1, 4);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	(void)be_ready();
	/* Now: a process that reads the command late may give after the capture. */
	CM_MUST(scalar(CM_SCALAR_peer_gives) == 0);
	OK(cuStreamEndCapture(stream, &graph));
}

/* The kernel goes on until the other side has failed. */
static void be_idle_beside_work(void)
{
	static volatile uint32_t flag;
	CUdeviceptr keep;

	hold_idle(10 * MIB + 1, 4);
	keep = cm_get(512);
	cm_launch_hold(cm_load_hold(), NULL, keep, 512, &flag);
	(void)be_ready();
	CM_MUST(scalar(CM_SCALAR_peer_gives) == 0);
	flag = 1;
	OK(cuCtxSynchronize());
}

static void fail_beside(void (*play)(void))
{
	struct other other = start(play);

	wait_until_ready(&other);
	cm_open(0);
	must_fail(30 * MIB);
	CM_MUST(scalar(CM_SCALAR_peer_bytes_got) == 0);
	end(&other, true);
}

CM_ROLE(refused)
{
	fail_beside(be_idle_and_refuse);
}

CM_ROLE(capturing)
{
	fail_beside(be_idle_in_a_capture);
}

CM_ROLE(working)
{
	fail_beside(be_idle_beside_work);
}

static void be_idle_and_give(void)
{
	configure("peer_processes:on");
	be_idle_for_long();
}

/* This one does not ask; the other would give. */
CM_ROLE(not_asking)
{
	fail_beside(be_idle_and_give);
	CM_MUST(scalar(CM_SCALAR_peer_asks) == 0);
}

/* It crashed and left its region: nobody waits for it, and its memory is free. */
CM_ROLE(crashed)
{
	struct other other = start(be_idle_for_long);
	CUdeviceptr addr;

	wait_until_ready(&other);
	cm_open(0);
	(void)cm_get(10 * MIB);
	CM_MUST(!kill(other.pid, SIGKILL) && waitpid(other.pid, NULL, 0) == other.pid);
	OK(try_get(50 * MIB, &addr));
	must_fail(20 * MIB);
	CM_MUST(scalar(CM_SCALAR_peer_asks) == 0);
}

/* Nothing is done any more: the thread that does it has the time. */
static void decay_all(uint64_t bytes)
{
	const struct timespec moment = {.tv_nsec = 5000000};

	hold_idle(10 * MIB + 1, 4);
	/* It is counted after it went. */
	while (scalar(CM_SCALAR_decay_bytes) < (int64_t)bytes)
		(void)nanosleep(&moment, NULL);
	CM_MUST(scalar(CM_SCALAR_decay_bytes) == (int64_t)bytes && !cm_reserved());
}

CM_ROLE(idle)
{
	decay_all(48 * MIB);
}

/* In one row, so that half a page is lost in all, and not one and a half with each. */
CM_ROLE(idle_pages)
{
	decay_all(42 * MIB);
}

/* On a card that is the case's own. */
static void play_on_card(void **state, const char *role, const char *conf, const char *memory)
{
	struct cm_play *play = *state;
	char card[PATH_MAX + 64], full_conf[128];

	(void)snprintf(card, sizeof(card), "CUDASIM=memory:%s,card:%s.card", memory, play->dir);
	(void)snprintf(full_conf, sizeof(full_conf), "oom_report:off,%s", conf);
	cm_play(state, role, full_conf, card);
	(void)unlink(strstr(card, ",card:") + strlen(",card:"));
}

#define ON_CARD(test, role, conf, memory)                \
	CM_PLAY_TEST(test)                               \
	{                                                \
		play_on_card(state, role, conf, memory); \
	}

ON_CARD(a_peer_gives_what_is_missing_and_no_more, "two", "", "64M")
ON_CARD(seven_peers_give_together, "eight", "", "96M")
ON_CARD(two_that_fail_and_ask_each_other_go_on, "each_other", "", "64M")
ON_CARD(one_that_is_stopped_is_not_waited_for, "stopped", "", "64M")
ON_CARD(one_that_ends_keeps_what_it_has, "ending", "", "64M")
ON_CARD(one_that_will_not_give_keeps_what_it_has, "refused", "", "64M")
ON_CARD(one_that_captures_keeps_what_it_has, "capturing", "", "64M")
ON_CARD(one_whose_device_works_keeps_what_it_has, "working", "", "64M")
ON_CARD(one_that_shall_not_ask_does_not, "not_asking", "peer_processes:off", "64M")
ON_CARD(idle_memory_decays, "idle", "decay_seconds:1", "64M")
ON_CARD(idle_pages_decay, "idle_pages", "decay_seconds:1,expandable_segments:True", "64M")

CM_PLAY_TEST(one_that_has_crashed_is_not_waited_for)
{
	struct cm_play *play = *state;
	char command[PATH_MAX + 32];

	play_on_card(state, "crashed", "", "64M");
	/* Its flight record stays. */
	assert_int_equal(cm_count_entries(play->dir, CM_REGION_PREFIX), 1);
	(void)snprintf(command, sizeof(command), "rm -r '%s'/*", play->dir);
	assert_int_equal(system(command), 0);
}
