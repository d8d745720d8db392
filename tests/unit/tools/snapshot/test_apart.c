/* SPDX-License-Identifier: MIT */
/* A child that says something, that says nothing, and that is another user. */
#include "tools/snapshot/apart.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

#define SILENCE_MS 20000
#define NOBODY     65534

static void say_user(void *data, FILE *to)
{
	const uid_t user = getuid();

	(void)data;
	(void)fwrite(&user, sizeof(user), 1, to);
}

/* How gladly the kernel ends it if memory runs out. */
static void say_score(void *data, FILE *to)
{
	FILE *from = fopen("/proc/self/oom_score_adj", "re");
	int score = 0;

	(void)data;
	if (from && fscanf(from, "%d", &score) == 1)
		(void)fwrite(&score, sizeof(score), 1, to);
}

static void say_nothing(void *data, FILE *to)
{
	(void)data;
	(void)to;
	for (;;)
		(void)pause();
}

static void crash(void *data, FILE *to)
{
	(void)data;
	(void)to;
	(void)raise(SIGKILL);
}

CM_TEST(what_a_child_writes_is_read)
{
	struct cm_apart apart;
	uid_t user = NOBODY;
	char more;

	assert_int_equal(cm_apart_start(getuid(), SILENCE_MS, say_user, NULL, &apart), 0);
	assert_true(cm_apart_read(&apart, &user, sizeof(user)));
	assert_int_equal(user, getuid());
	assert_false(cm_apart_read(&apart, &more, 1));
	cm_apart_end(&apart);
}

CM_TEST(a_child_of_root_is_the_owner)
{
	struct cm_apart apart;
	uid_t user = 0;

	if (getuid())
		cm_skip("needs root, to be another user");
	assert_int_equal(cm_apart_start(NOBODY, SILENCE_MS, say_user, NULL, &apart), 0);
	assert_true(cm_apart_read(&apart, &user, sizeof(user)));
	assert_int_equal(user, NOBODY);
	cm_apart_end(&apart);
}

CM_TEST(a_child_is_the_first_to_go_when_memory_runs_out)
{
	const uid_t users[] = {getuid(), NOBODY};
	struct cm_apart apart;
	size_t i;
	int score;

	for (i = 0; i < (getuid() ? 1 : 2); i++) {
		score = 0;
		assert_int_equal(cm_apart_start(users[i], SILENCE_MS, say_score, NULL, &apart), 0);
		assert_true(cm_apart_read(&apart, &score, sizeof(score)));
		assert_int_equal(score, 1000);
		cm_apart_end(&apart);
	}
}

CM_TEST(a_child_that_is_silent_or_dead_is_given_up)
{
	struct cm_apart apart;
	char byte;

	assert_int_equal(cm_apart_start(getuid(), 10, say_nothing, NULL, &apart), 0);
	assert_false(cm_apart_read(&apart, &byte, 1));
	cm_apart_end(&apart);
	assert_int_equal(kill(apart.child, 0), -1);
	assert_int_equal(cm_apart_start(getuid(), SILENCE_MS, crash, NULL, &apart), 0);
	assert_false(cm_apart_read(&apart, &byte, 1));
	cm_apart_end(&apart);
}
