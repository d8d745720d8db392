/* SPDX-License-Identifier: MIT */
#include "stats/command_client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"

#define SECOND        UINT64_C(1000000000)
#define SOON          (SECOND / 20)
#define PATIENCE      (600 * SECOND) /* a lost wake-up would be a time-out of the test */
#define MANY_COMMANDS 200

struct fixture {
	char dir[OWN_REGION_DIR_BYTES];
	struct cm_region *region;
	struct cm_channel *channel;
	struct cm_reader *reader;
	pthread_t owner;
	void (*reply)(struct fixture *f, struct cm_command *command);
	bool stop;
	bool moved; /* the owner has gone on */
	bool moved_at_copy;
	bool slow;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char why[CM_READER_WHY_BYTES];

	if (!f)
		return -1;
	if (own_region_make(f->dir, (struct cm_region_params){0}, &f->region))
		return -1;
	f->region->header->flags |= CM_REGION_CONTROL;
	f->channel = &f->region->header->channel;
	*state = f;
	return cm_reader_open(f->region->path, &f->reader, why);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_reader_close(f->reader);
	own_region_remove(f->dir, f->region);
	free(f);
	return 0;
}

/* The answer is the argument, twice. */
static void answer(struct fixture *f, struct cm_command *command)
{
	(void)f;
	command->result[0] = 2 * command->arg[0];
	command->status = command->code == CM_COMMAND_RECORD ? -EBUSY : 0;
}

/* What the owner stands still for, and how far it has counted. */
static void hold(struct fixture *f, struct cm_command *command)
{
	command->status = -ETIME;
	if (cm_channel_hold(f->channel, command->arg[0], &command->result[0]))
		command->status = 0;
	__atomic_store_n(&f->moved, true, __ATOMIC_RELEASE);
}

/* The owner's side, as the library's own thread does it. */
static void *serve(void *arg)
{
	struct fixture *f = arg;
	struct cm_command command;

	while (!__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) {
		if (!cm_channel_take(f->channel, &command)) {
			cm_channel_wait(f->channel, 10);
			continue;
		}
		f->reply(f, &command);
		(void)cm_channel_answer(f->channel, &command);
	}
	return NULL;
}

static void start_owner(struct fixture *f, void (*reply)(struct fixture *, struct cm_command *))
{
	f->reply = reply;
	assert_int_equal(pthread_create(&f->owner, NULL, serve, f), 0);
}

static void stop_owner(struct fixture *f)
{
	__atomic_store_n(&f->stop, true, __ATOMIC_RELEASE);
	(void)cm_channel_wake(f->channel);
	(void)pthread_join(f->owner, NULL);
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(a_command_is_answered_and_the_channel_left_empty)
{
	struct fixture *f = *state;
	struct cm_command command = {.code = CM_COMMAND_EMPTY_CACHE, .arg = {21}};
	int err;

	start_owner(f, answer);
	err = cm_client_send(f->reader, &command, PATIENCE);
	stop_owner(f);
	assert_int_equal(err, 0);
	assert_int_equal(command.result[0], 42);
	assert_int_equal(f->channel->state, CM_CHANNEL_IDLE);
	assert_int_equal(f->channel->sender, getpid());
}

TEST(the_answer_of_the_owner_is_the_result)
{
	struct fixture *f = *state;
	struct cm_command command = {.code = CM_COMMAND_RECORD};
	int err;

	start_owner(f, answer);
	err = cm_client_send(f->reader, &command, PATIENCE);
	stop_owner(f);
	assert_int_equal(err, -EBUSY);
}

TEST(a_command_without_an_answer_is_withdrawn)
{
	struct fixture *f = *state;
	struct cm_command command = {.code = CM_COMMAND_EMPTY_CACHE};

	assert_int_equal(cm_client_send(f->reader, &command, SOON), -ETIMEDOUT);
	assert_int_equal(f->channel->state, CM_CHANNEL_IDLE);
	assert_false(cm_channel_take(f->channel, &command));
}

/* A command that runs is not disturbed; the next tool waits for its end. */
TEST(a_command_in_work_is_waited_for)
{
	struct fixture *f = *state;
	struct cm_command command = {.code = CM_COMMAND_EMPTY_CACHE};

	f->channel->state = CM_CHANNEL_RUNNING;
	assert_int_equal(cm_client_send(f->reader, &command, SOON), -ETIMEDOUT);
	assert_int_equal(f->channel->state, CM_CHANNEL_RUNNING);
}

/* A tool can die at any point, and what it wrote may be anything. */
TEST(what_a_dead_tool_left_is_cleared_away)
{
	static const uint32_t left[] = {CM_CHANNEL_CLAIMED, CM_CHANNEL_POSTED, CM_CHANNEL_DONE, 77};
	struct fixture *f = *state;
	struct cm_command command;
	size_t i;
	int err;

	for (i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		f->stop = false;
		f->channel->state = left[i];
		f->channel->command = CM_COMMAND_RECORD;
		f->channel->result[0] = 99;
		command = (struct cm_command){.code = CM_COMMAND_EMPTY_CACHE, .arg = {4}};
		start_owner(f, answer);
		err = cm_client_send(f->reader, &command, PATIENCE);
		stop_owner(f);
		if (err || command.result[0] != 8)
			fail_msg("left at %u: result %d", left[i], err);
	}
}

TEST(another_tool_at_work_is_waited_for)
{
	struct fixture *f = *state;
	struct cm_command command = {.code = CM_COMMAND_EMPTY_CACHE};
	int fd;

	fd = open(f->region->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(cm_client_send(f->reader, &command, SOON), -ETIMEDOUT);
	assert_int_equal(f->channel->state, CM_CHANNEL_IDLE);
	assert_int_equal(f->channel->command, CM_COMMAND_NONE);
	(void)close(fd);
}

struct sender {
	struct cm_reader *reader;
	unsigned wrong;
};

static void *send_many(void *arg)
{
	struct sender *sender = arg;
	struct cm_command command;
	uint64_t i;

	for (i = 0; i < MANY_COMMANDS; i++) {
		command = (struct cm_command){.code = CM_COMMAND_CHECKPOINT,
					      .arg = {(uint64_t)(uintptr_t)sender + i}};
		if (cm_client_send(sender->reader, &command, PATIENCE) ||
		    command.result[0] != 2 * command.arg[0])
			sender->wrong++;
	}
	return NULL;
}

TEST(tools_at_one_time_each_get_their_own_answer)
{
	struct fixture *f = *state;
	struct sender senders[3] = {{f->reader, 0}, {f->reader, 0}, {f->reader, 0}};
	pthread_t threads[3];
	size_t i;

	start_owner(f, answer);
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_many, &senders[i]), 0);
	for (i = 0; i < 3; i++)
		(void)pthread_join(threads[i], NULL);
	stop_owner(f);
	for (i = 0; i < 3; i++)
		assert_int_equal(senders[i].wrong, 0);
}

TEST(a_process_without_a_helper_is_not_written_to)
{
	struct fixture *f = *state;
	struct cm_command command = {.code = CM_COMMAND_EMPTY_CACHE};

	f->reader->header.flags = 0;
	assert_int_equal(cm_client_send(f->reader, &command, SOON), -EOPNOTSUPP);
	assert_int_equal(f->channel->command, CM_COMMAND_NONE);
}

TEST(a_region_of_another_user_is_not_written_to)
{
	struct fixture *f = *state;
	struct cm_command command = {.code = CM_COMMAND_EMPTY_CACHE};

	f->reader->owner = geteuid() + 1;
	assert_int_equal(cm_client_send(f->reader, &command, SOON), -EPERM);
	assert_int_equal(f->channel->command, CM_COMMAND_NONE);
}

static void copy(void *data)
{
	struct fixture *f = data;

	/* Longer than the owner stands still for anybody. */
	while (f->slow && !__atomic_load_n(&f->moved, __ATOMIC_ACQUIRE))
		(void)sched_yield();
	f->moved_at_copy = __atomic_load_n(&f->moved, __ATOMIC_ACQUIRE);
}

TEST(a_process_stands_still_while_it_is_copied)
{
	struct fixture *f = *state;
	uint64_t ns = 0;
	int err, tries = 0;

	start_owner(f, hold);
	do {
		f->moved = false;
		err = cm_client_hold(f->reader, copy, f, PATIENCE, &ns);
	} while (err == -ETIME && ++tries < 10000); /* a machine that is busy with other things */
	stop_owner(f);
	assert_int_equal(err, 0);
	assert_false(f->moved_at_copy);
	assert_in_range(ns, 1, 10 * SECOND);
	assert_int_equal(f->channel->hold, CM_HOLD_COPIED);
}

TEST(a_copy_that_takes_too_long_is_refused)
{
	struct fixture *f = *state;
	uint64_t ns = 77;
	int err;

	f->slow = true;
	start_owner(f, hold);
	err = cm_client_hold(f->reader, copy, f, PATIENCE, &ns);
	stop_owner(f);
	assert_int_equal(err, -ETIME);
	assert_int_equal(ns, 77);
	assert_int_equal(f->channel->hold, CM_HOLD_ENDED);
}

TEST(an_owner_that_knows_no_hold_is_not_waited_for)
{
	struct fixture *f = *state;
	uint64_t ns;
	int err;

	start_owner(f, answer);
	err = cm_client_hold(f->reader, copy, f, PATIENCE, &ns);
	stop_owner(f);
	assert_int_equal(err, -EPROTO); /* this owner says yes to anything */
}

static void *fail_for_memory(void *arg)
{
	struct fixture *f = arg;

	f->moved = cm_channel_report_oom(f->channel, PATIENCE);
	return NULL;
}

TEST(a_request_that_failed_goes_on_when_it_was_seen)
{
	struct fixture *f = *state;

	assert_int_equal(pthread_create(&f->owner, NULL, fail_for_memory, f), 0);
	while (!__atomic_load_n(&f->channel->ooms, __ATOMIC_ACQUIRE))
		(void)sched_yield();
	assert_int_equal(cm_client_oom_seen(f->reader, 1), 0);
	assert_int_equal(pthread_join(f->owner, NULL), 0);
	assert_true(f->moved);
}
