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

static void post(struct cm_mailbox *mailbox, uint32_t command)
{
	mailbox->command = command;
	mailbox->arg[0] = 7;
	mailbox->status = 99;
	mailbox->result[0] = 99;
	__atomic_store_n(&mailbox->state, CM_MAIL_POSTED, __ATOMIC_RELEASE);
}

static void a_posted_letter_is_taken_once_and_answered(void **state)
{
	struct cm_mailbox mailbox = {0};
	struct cm_letter letter;

	(void)state;
	post(&mailbox, CM_COMMAND_EMPTY_CACHE);
	assert_true(cm_mailbox_take(&mailbox, &letter));
	assert_int_equal(mailbox.state, CM_MAIL_RUNNING);
	assert_int_equal(letter.command, CM_COMMAND_EMPTY_CACHE);
	assert_int_equal(letter.arg[0], 7);
	assert_int_equal(letter.status, 0);
	assert_int_equal(letter.result[0], 0);
	assert_false(cm_mailbox_take(&mailbox, &letter));

	letter.result[0] = 4096;
	letter.status = -EBUSY;
	assert_true(cm_mailbox_answer(&mailbox, &letter));
	assert_int_equal(mailbox.state, CM_MAIL_DONE);
	assert_int_equal(mailbox.result[0], 4096);
	assert_int_equal(mailbox.status, -EBUSY);
}

/* Every state but POSTED, and numbers that are none: nothing is there to take. */
static void only_a_posted_letter_is_taken(void **state)
{
	static const uint32_t states[] = {
		CM_MAIL_IDLE, CM_MAIL_CLAIMED, CM_MAIL_RUNNING, CM_MAIL_DONE, 77, UINT32_MAX};
	struct cm_mailbox mailbox = {0};
	struct cm_letter letter = {.command = 55};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		mailbox.state = states[i];
		assert_false(cm_mailbox_take(&mailbox, &letter));
		assert_int_equal(mailbox.state, states[i]);
		assert_int_equal(letter.command, 55);
	}
}

/* The sender has died, and the next tool has taken the mailbox while the command ran. */
static void an_answer_does_not_undo_a_takeover(void **state)
{
	struct cm_mailbox mailbox = {0};
	struct cm_letter letter;

	(void)state;
	post(&mailbox, CM_COMMAND_CHECKPOINT);
	assert_true(cm_mailbox_take(&mailbox, &letter));
	mailbox.state = CM_MAIL_CLAIMED;
	assert_false(cm_mailbox_answer(&mailbox, &letter));
	assert_int_equal(mailbox.state, CM_MAIL_CLAIMED);
}

/* What the tool writes after it has posted is not seen: the letter was copied. */
static void a_letter_does_not_change_after_it_is_taken(void **state)
{
	struct cm_mailbox mailbox = {0};
	struct cm_letter letter;

	(void)state;
	post(&mailbox, CM_COMMAND_RESET_PEAK);
	assert_true(cm_mailbox_take(&mailbox, &letter));
	mailbox.command = 12345;
	mailbox.arg[0] = UINT64_MAX;
	assert_int_equal(letter.command, CM_COMMAND_RESET_PEAK);
	assert_int_equal(letter.arg[0], 7);
}

static void waiting_ends_with_the_time(void **state)
{
	struct timespec before, after;
	struct cm_mailbox mailbox = {0};
	int64_t ms;

	(void)state;
	(void)clock_gettime(CLOCK_MONOTONIC, &before);
	cm_mailbox_wait(&mailbox, 20);
	(void)clock_gettime(CLOCK_MONOTONIC, &after);
	ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	assert_true(ms >= 19);
}

static void waiting_does_not_begin_when_a_letter_is_there(void **state)
{
	struct cm_mailbox mailbox = {0};

	(void)state;
	post(&mailbox, CM_COMMAND_CHECKPOINT);
	cm_mailbox_wait(&mailbox, CM_MAIL_FOREVER);
	assert_int_equal(mailbox.state, CM_MAIL_POSTED);
}

#define LETTERS 1000

/* The owner's loop as the library runs it, until it is told to end. */
static void *own(void *arg)
{
	struct cm_mailbox *mailbox = arg;
	struct cm_letter letter;

	for (;;) {
		if (!cm_mailbox_take(mailbox, &letter)) {
			cm_mailbox_wait(mailbox, CM_MAIL_FOREVER);
			continue;
		}
		letter.result[0] = letter.arg[0] + 1;
		(void)cm_mailbox_answer(mailbox, &letter);
		if (letter.command == CM_COMMAND_NONE)
			return NULL;
	}
}

static void no_letter_is_lost_on_a_sleeping_owner(void **state)
{
	static struct cm_mailbox mailbox;
	pthread_t owner;
	int i;

	(void)state;
	assert_int_equal(pthread_create(&owner, NULL, own, &mailbox), 0);
	for (i = 0; i <= LETTERS; i++) {
		mailbox.command = i < LETTERS ? CM_COMMAND_CHECKPOINT : CM_COMMAND_NONE;
		mailbox.arg[0] = (uint64_t)i;
		__atomic_store_n(&mailbox.state, CM_MAIL_POSTED, __ATOMIC_RELEASE);
		(void)cm_mailbox_nudge(&mailbox);
		/* The owner sleeps without an end: a lost wake-up would be a time-out of the
		 * test. */
		while (__atomic_load_n(&mailbox.state, __ATOMIC_ACQUIRE) != CM_MAIL_DONE)
			(void)sched_yield();
		assert_int_equal(mailbox.result[0], i + 1);
		__atomic_store_n(&mailbox.state, CM_MAIL_IDLE, __ATOMIC_RELEASE);
	}
	assert_int_equal(pthread_join(owner, NULL), 0);
}

#define FAILURES 500

/* The tool's loop: sees all that there are. */
static void *see(void *arg)
{
	struct cm_mailbox *mailbox = arg;
	uint32_t ooms = 0;

	while (ooms != FAILURES) {
		ooms = __atomic_load_n(&mailbox->ooms, __ATOMIC_ACQUIRE);
		__atomic_store_n(&mailbox->ooms_seen, ooms, __ATOMIC_RELEASE);
		(void)syscall(SYS_futex, &mailbox->ooms_seen, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		(void)sched_yield();
	}
	return NULL;
}

static void a_failure_is_over_when_it_was_seen(void **state)
{
	static struct cm_mailbox mailbox;
	pthread_t tool;
	int i;

	(void)state;
	assert_int_equal(pthread_create(&tool, NULL, see, &mailbox), 0);
	for (i = 1; i <= FAILURES; i++) {
		/* Minutes: a lost wake-up would be a time-out of the test. */
		assert_true(cm_mailbox_show_oom(&mailbox, UINT64_C(600000000000)));
		assert_int_equal(mailbox.ooms, i);
	}
	assert_int_equal(pthread_join(tool, NULL), 0);
}

static void a_failure_that_nobody_sees_waits_for_its_time(void **state)
{
	struct cm_mailbox mailbox = {.ooms = UINT32_MAX, .ooms_seen = UINT32_MAX};
	struct timespec before, after;
	int64_t ms;

	(void)state;
	(void)clock_gettime(CLOCK_MONOTONIC, &before);
	assert_false(cm_mailbox_show_oom(&mailbox, 20000000));
	(void)clock_gettime(CLOCK_MONOTONIC, &after);
	ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	assert_true(ms >= 19);
	assert_int_equal(mailbox.ooms, 0); /* the numbers wrap */
}

static void a_failure_seen_in_advance_waits_for_nobody(void **state)
{
	static const uint32_t starts[] = {0, 7, INT32_MAX, UINT32_MAX - 2};
	struct cm_mailbox mailbox = {0};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		mailbox.ooms = starts[i];
		mailbox.ooms_seen = CM_OOMS_ALL(starts[i]);
		assert_true(cm_mailbox_show_oom(&mailbox, 0));
		assert_true(cm_mailbox_show_oom(&mailbox, 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_posted_letter_is_taken_once_and_answered),
		cmocka_unit_test(only_a_posted_letter_is_taken),
		cmocka_unit_test(an_answer_does_not_undo_a_takeover),
		cmocka_unit_test(a_letter_does_not_change_after_it_is_taken),
		cmocka_unit_test(waiting_ends_with_the_time),
		cmocka_unit_test(waiting_does_not_begin_when_a_letter_is_there),
		cmocka_unit_test(no_letter_is_lost_on_a_sleeping_owner),
		cmocka_unit_test(a_failure_is_over_when_it_was_seen),
		cmocka_unit_test(a_failure_that_nobody_sees_waits_for_its_time),
		cmocka_unit_test(a_failure_seen_in_advance_waits_for_nobody),
	};

	return cmocka_run_group_tests_name("mailbox", tests, NULL, NULL);
}
