/* SPDX-License-Identifier: MIT */
/*
 * The command channel between the library's thread and tools: stats/command_channel.c and
 * exchange() of stats/command_client.c. Tools take turns by flock, so two tools are one thread
 * after the other.
 */
/* clang-format off: the functions that are static there */
#include "stats/command_client.c" /* NOLINT(bugprone-suspicious-include) */
/* clang-format on */

#include "tests/model/model.h"

#define NEVER UINT64_MAX

static struct cm_channel channel;

/* Of stats/start_time.c and region.c, which are not in the model. */
int cm_process_start_time(uint32_t pid, uint64_t *ret_start)
{
	(void)pid;
	*ret_start = 1;
	return 0;
}

int cm_region_back_file(int fd, uint64_t offset, uint64_t bytes)
{
	(void)fd;
	(void)offset;
	(void)bytes;
	return 0;
}

static void setup(void)
{
	memset(&channel, 0, sizeof(channel));
}

/* As the helper in interpose/process/control.c, until CM_COMMAND_NONE ends it. */
static void own(void)
{
	struct cm_command command;

	for (;;) {
		if (!cm_channel_take(&channel, &command)) {
			cm_channel_wait(&channel, CM_CHANNEL_FOREVER);
			continue;
		}
		command.result[0] = command.arg[0] + 1;
		(void)cm_channel_answer(&channel, &command);
		if (command.code == CM_COMMAND_NONE)
			return;
	}
}

static int ask(uint32_t code, uint64_t arg, uint64_t deadline_ns)
{
	struct cm_command command = {.code = code, .arg = {arg}};
	int err = exchange(&channel, &command, NULL, deadline_ns);

	/* The answer belongs to this command. */
	MODEL_MUST(err || command.result[0] == arg + 1);
	return err;
}

static void ask_two(void)
{
	MODEL_MUST(!ask(CM_COMMAND_CHECKPOINT, 10, NEVER));
	MODEL_MUST(!ask(CM_COMMAND_NONE, 20, NEVER));
}

/* The first tool may give up at any moment: its command is withdrawn, or answered late. */
static void give_up_then_ask(void)
{
	(void)ask(CM_COMMAND_CHECKPOINT, 10, 1);
	MODEL_MUST(!ask(CM_COMMAND_NONE, 20, NEVER));
}

/* A tool dies and leaves its command in any state; the next tool clears it. */
static void die_then_ask(void)
{
	static const uint32_t left[] = {CM_CHANNEL_CLAIMED, CM_CHANNEL_POSTED, CM_CHANNEL_DONE};

	channel.command = CM_COMMAND_CHECKPOINT;
	__atomic_store_n(&channel.state, left[model_choose(3)], __ATOMIC_RELEASE);
	MODEL_MUST(!ask(CM_COMMAND_NONE, 20, NEVER));
}

/* What a test once did: it waited for the answer as the owner waits for a command. */
static void wait_as_the_owner_does(void)
{
	uint32_t seen;

	channel.command = CM_COMMAND_NONE;
	__atomic_store_n(&channel.state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
	(void)cm_channel_wake(&channel);
	while ((seen = __atomic_load_n(&channel.state, __ATOMIC_ACQUIRE)) != CM_CHANNEL_DONE)
		cm_channel_wait(&channel, CM_CHANNEL_FOREVER);
}

/* A command posted without a wake-up. */
static void forget_to_wake(void)
{
	channel.command = CM_COMMAND_NONE;
	__atomic_store_n(&channel.state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
	(void)wait_answer(&channel, NEVER);
}

/* A command posted before it is written. */
static void post_relaxed(void)
{
	channel.command = CM_COMMAND_NONE;
	__atomic_store_n(&channel.state, CM_CHANNEL_POSTED, __ATOMIC_RELAXED);
	(void)cm_channel_wake(&channel);
	(void)wait_answer(&channel, NEVER);
}

int main(void)
{
	static const struct model_scenario scenarios[] = {
		{"two commands are answered", setup, {own, ask_two}, NULL, 3, NULL},
		{"a command is withdrawn or answered",
		 setup,
		 {own, give_up_then_ask},
		 NULL,
		 3,
		 NULL},
		{"a dead tool's command is cleared", setup, {own, die_then_ask}, NULL, 4, NULL},
		{"waiting as the owner does",
		 setup,
		 {own, wait_as_the_owner_does},
		 NULL,
		 ~0u,
		 "deadlock"},
		{"a command without a wake-up",
		 setup,
		 {own, forget_to_wake},
		 NULL,
		 ~0u,
		 "deadlock"},
		{"a command without release", setup, {own, post_relaxed}, NULL, ~0u, "race"},
	};

	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
