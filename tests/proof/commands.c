/* SPDX-License-Identifier: MIT */
#include "tests/proof/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stats/command_channel.h"
#include "stats/config.h"
#include "stats/region_mode.h"
#include "tests/proof/answers.h"
#include "tests/proof/holdings.h"

#define LOOKS       60000 /* for an answer, 1 ms apart */
#define ALL_DEVICES UINT64_MAX
#define HOLD_NS     30000
#define GIVE_BYTES  (UINT64_C(8) << 20)
#define GIVE_NS     UINT64_C(1000000)

static struct cm_channel *channel; /* NULL: nobody answers */

void proof_open_channel(const struct proof_hand *hand)
{
	char path[PATH_MAX];
	void *at;
	int fd;

	if (!cm_holdings_are_here() || !cm_holdings_find_region(path))
		return;
	fd = cm_region_open_writable(AT_FDCWD, path, 0);
	at = mmap(NULL, sizeof(*channel), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  offsetof(struct cm_header, channel));
	if (at == MAP_FAILED)
		proof_wrong(hand, "the command channel can't be opened");
	(void)close(fd);
	channel = at;
}

/* Mostly trims, as they remove the most rows from the tables. */
static struct cm_command choose_command(uint64_t what)
{
	static const enum cm_command_code commands[] = {
		CM_COMMAND_EMPTY_CACHE, CM_COMMAND_GIVE_BACK, CM_COMMAND_EMPTY_CACHE,
		CM_COMMAND_CHECKPOINT,  CM_COMMAND_RECORD,    CM_COMMAND_EMPTY_CACHE,
		CM_COMMAND_RESET_PEAK,  CM_COMMAND_GIVE_BACK, CM_COMMAND_EMPTY_CACHE,
		CM_COMMAND_CHECKPOINT,  CM_COMMAND_SNAPSHOT,  CM_COMMAND_RESET_ACCUMULATED,
		CM_COMMAND_CONFIGURE,
	};
	const uint64_t n = sizeof(commands) / sizeof(commands[0]), how = what / n;
	struct cm_command command = {.code = commands[what % n]};

	switch (command.code) {
	case CM_COMMAND_RECORD:
		command.arg[0] = CM_RECORD_SET_EVENTS | CM_RECORD_SET_CONTEXT |
				 (how % 5 ? 0 : CM_RECORD_CLEAR);
		command.arg[1] = cm_record_pack(how % 2, how % CM_CONTEXT_COUNT, 0);
		break;
	case CM_COMMAND_GIVE_BACK:
		command.arg[0] = how % PROOF_DEVICES;
		command.arg[1] = how * GIVE_BYTES;
		command.arg[2] = GIVE_NS;
		break;
	case CM_COMMAND_SNAPSHOT:
		command.arg[0] = how % 2 * HOLD_NS;
		break;
	case CM_COMMAND_CONFIGURE:
		command.arg[0] = CM_OPTION_decay_seconds;
		command.arg[1] = '1' + how % 9; /* a digit and a zero byte */
		break;
	default:
		command.arg[0] = how % (PROOF_DEVICES + 1);
		if (command.arg[0] == PROOF_DEVICES)
			command.arg[0] = ALL_DEVICES;
	}
	return command;
}

/* Whether stats/layout.h lists the status for the command. A device may have no row. */
static bool is_expected(uint32_t command, int32_t status)
{
	switch (command) {
	case CM_COMMAND_EMPTY_CACHE:
		return !status || status == -EBUSY || status == -ETIME || status == -ENODEV;
	case CM_COMMAND_GIVE_BACK:
		return !status || status == -EBUSY || status == -ENODEV;
	case CM_COMMAND_RESET_PEAK:
	case CM_COMMAND_RESET_ACCUMULATED:
		return !status || status == -ENODEV;
	case CM_COMMAND_SNAPSHOT:
		return !status || status == -ETIME;
	default:
		return !status;
	}
}

static void judge(const struct proof_hand *hand)
{
	if (!is_expected(channel->command, channel->status))
		proof_wrong(hand, "command %u was answered with %d", channel->command,
			    channel->status);
}

/* Claims the channel, as tools do. False: another tool has it, or a command is running. */
static bool claim(const struct proof_hand *hand)
{
	uint32_t state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);

	if ((state != CM_CHANNEL_IDLE && state != CM_CHANNEL_DONE) ||
	    !__atomic_compare_exchange_n(&channel->state, &state, CM_CHANNEL_CLAIMED, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	if (state == CM_CHANNEL_DONE)
		judge(hand);
	return true;
}

void proof_post_command(const struct proof_hand *hand, uint64_t what)
{
	const struct cm_command command = choose_command(what);

	if (!channel || !claim(hand))
		return;
	__atomic_store_n(&channel->hold, CM_HOLD_NONE, __ATOMIC_RELEASE);
	channel->command = command.code;
	memcpy(channel->arg, command.arg, sizeof(channel->arg));
	/* Release: who sees POSTED sees the command. */
	__atomic_store_n(&channel->state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
	proof_wake_helper();
}

bool proof_expects_same(void)
{
	return proof_state.run.commands && !proof_state.run.free_running && !proof_state.captures &&
	       !proof_state.pooled && !proof_state.tolerated[0];
}

void proof_wake_helper(void)
{
	if (channel)
		(void)cm_channel_wake(channel);
}

void proof_await_answer(const struct proof_hand *hand)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	int i;

	for (i = 0; channel && !claim(hand); i++) {
		if (i == LOOKS)
			proof_wrong(hand, "a command is not answered");
		(void)nanosleep(&moment, NULL);
	}
	if (channel)
		__atomic_store_n(&channel->state, CM_CHANNEL_IDLE, __ATOMIC_RELEASE);
}
