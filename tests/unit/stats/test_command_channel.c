/* SPDX-License-Identifier: MIT */
#include "stats/command_channel.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stats/command_client.h"
#include "tests/unit/cmocka_all.h"

static void post(struct cm_channel *channel, uint32_t command)
{
	channel->command = command;
	channel->arg[0] = 7;
	channel->status = 99;
	channel->result[0] = 99;
	__atomic_store_n(&channel->state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
}

CM_TEST(a_posted_command_is_taken_once_and_answered)
{
	struct cm_channel channel = {0};
	struct cm_command command;

	post(&channel, CM_COMMAND_EMPTY_CACHE);
	assert_true(cm_channel_take(&channel, &command));
	assert_int_equal(channel.state, CM_CHANNEL_RUNNING);
	assert_int_equal(command.code, CM_COMMAND_EMPTY_CACHE);
	assert_int_equal(command.arg[0], 7);
	assert_int_equal(command.status, 0);
	assert_int_equal(command.result[0], 0);
	assert_false(cm_channel_take(&channel, &command));

	command.result[0] = 4096;
	command.status = -EBUSY;
	assert_true(cm_channel_answer(&channel, &command));
	assert_int_equal(channel.state, CM_CHANNEL_DONE);
	assert_int_equal(channel.result[0], 4096);
	assert_int_equal(channel.status, -EBUSY);
}

/* Every state but POSTED, and numbers that are none: nothing is there to take. */
CM_TEST(only_a_posted_command_is_taken)
{
	static const uint32_t states[] = {
		CM_CHANNEL_IDLE, CM_CHANNEL_CLAIMED, CM_CHANNEL_RUNNING, CM_CHANNEL_DONE, 77,
		UINT32_MAX};
	struct cm_channel channel = {0};
	struct cm_command command = {.code = 55};
	size_t i;

	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		channel.state = states[i];
		assert_false(cm_channel_take(&channel, &command));
		assert_int_equal(channel.state, states[i]);
		assert_int_equal(command.code, 55);
	}
}

/* The sender has died, and the next tool has taken the channel while the command ran. */
CM_TEST(an_answer_does_not_undo_a_takeover)
{
	struct cm_channel channel = {0};
	struct cm_command command;

	post(&channel, CM_COMMAND_CHECKPOINT);
	assert_true(cm_channel_take(&channel, &command));
	channel.state = CM_CHANNEL_CLAIMED;
	assert_false(cm_channel_answer(&channel, &command));
	assert_int_equal(channel.state, CM_CHANNEL_CLAIMED);
}

/* What the tool writes after it has posted is not seen: the command was copied. */
CM_TEST(a_command_does_not_change_after_it_is_taken)
{
	struct cm_channel channel = {0};
	struct cm_command command;

	post(&channel, CM_COMMAND_RESET_PEAK);
	assert_true(cm_channel_take(&channel, &command));
	channel.command = 12345;
	channel.arg[0] = UINT64_MAX;
	assert_int_equal(command.code, CM_COMMAND_RESET_PEAK);
	assert_int_equal(command.arg[0], 7);
}

CM_TEST(waiting_ends_with_the_time)
{
	struct timespec before, after;
	struct cm_channel channel = {0};
	int64_t ms;

	(void)clock_gettime(CLOCK_MONOTONIC, &before);
	cm_channel_wait(&channel, 20);
	(void)clock_gettime(CLOCK_MONOTONIC, &after);
	ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	assert_true(ms >= 19);
}

CM_TEST(waiting_does_not_begin_when_a_command_is_there)
{
	struct cm_channel channel = {0};

	post(&channel, CM_COMMAND_CHECKPOINT);
	cm_channel_wait(&channel, CM_CHANNEL_FOREVER);
	assert_int_equal(channel.state, CM_CHANNEL_POSTED);
}

#define COMMANDS 1000

/* The owner's loop as the library runs it, until it is told to end. */
static void *own(void *arg)
{
	struct cm_channel *channel = arg;
	struct cm_command command;

	for (;;) {
		if (!cm_channel_take(channel, &command)) {
			cm_channel_wait(channel, CM_CHANNEL_FOREVER);
			continue;
		}
		command.result[0] = command.arg[0] + 1;
		(void)cm_channel_answer(channel, &command);
		if (command.code == CM_COMMAND_NONE)
			return NULL;
	}
}

CM_TEST(no_command_is_lost_on_a_sleeping_owner)
{
	static struct cm_channel channel;
	pthread_t owner;
	int i;

	assert_int_equal(pthread_create(&owner, NULL, own, &channel), 0);
	for (i = 0; i <= COMMANDS; i++) {
		channel.command = i < COMMANDS ? CM_COMMAND_CHECKPOINT : CM_COMMAND_NONE;
		channel.arg[0] = (uint64_t)i;
		__atomic_store_n(&channel.state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
		(void)cm_channel_wake(&channel);
		/* The owner sleeps without an end: a lost wake-up would be a time-out of the
		 * test. */
		while (__atomic_load_n(&channel.state, __ATOMIC_ACQUIRE) != CM_CHANNEL_DONE)
			(void)sched_yield();
		assert_int_equal(channel.result[0], i + 1);
		__atomic_store_n(&channel.state, CM_CHANNEL_IDLE, __ATOMIC_RELEASE);
	}
	assert_int_equal(pthread_join(owner, NULL), 0);
}

#define FAILURES 500

/* The tool's loop: sees all that there are. */
static void *see(void *arg)
{
	struct cm_channel *channel = arg;
	uint32_t ooms = 0;

	while (ooms != FAILURES) {
		ooms = __atomic_load_n(&channel->ooms, __ATOMIC_ACQUIRE);
		__atomic_store_n(&channel->ooms_seen, ooms, __ATOMIC_RELEASE);
		(void)syscall(SYS_futex, &channel->ooms_seen, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		(void)sched_yield();
	}
	return NULL;
}

CM_TEST(a_failure_is_over_when_it_was_seen)
{
	static struct cm_channel channel;
	pthread_t tool;
	int i;

	assert_int_equal(pthread_create(&tool, NULL, see, &channel), 0);
	for (i = 1; i <= FAILURES; i++) {
		/* Minutes: a lost wake-up would be a time-out of the test. */
		assert_true(cm_channel_report_oom(&channel, UINT64_C(600000000000)));
		assert_int_equal(channel.ooms, i);
	}
	assert_int_equal(pthread_join(tool, NULL), 0);
}

CM_TEST(a_failure_that_nobody_sees_waits_for_its_time)
{
	struct cm_channel channel = {.ooms = UINT32_MAX, .ooms_seen = UINT32_MAX};
	struct timespec before, after;
	int64_t ms;

	(void)clock_gettime(CLOCK_MONOTONIC, &before);
	assert_false(cm_channel_report_oom(&channel, 20000000));
	(void)clock_gettime(CLOCK_MONOTONIC, &after);
	ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	assert_true(ms >= 19);
	assert_int_equal(channel.ooms, 0); /* the numbers wrap */
}

CM_TEST(a_failure_seen_in_advance_waits_for_nobody)
{
	static const uint32_t starts[] = {0, 7, INT32_MAX, UINT32_MAX - 2};
	struct cm_channel channel = {0};
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		channel.ooms = starts[i];
		channel.ooms_seen = CM_OOMS_ALL(starts[i]);
		assert_true(cm_channel_report_oom(&channel, 0));
		assert_true(cm_channel_report_oom(&channel, 0));
	}
}
