/* SPDX-License-Identifier: MIT */
/*
 * Any bytes in the command channel of a live cache, as every tool of the same user may write there.
 * Each piece of the input is one command, in any state; between two commands the program allocates
 * and frees. The owner's side is interpose/process/control.c, run by this thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: the functions that are static there */
#include "interpose/process/control.c" /* NOLINT(bugprone-suspicious-include) */
/* clang-format on */
#include "allocator/state/limit.h"
#include "tests/unit/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : abort())

#define BLOCKS 8

/* What control.c calls in other files and no command reaches. */
__thread unsigned int cm_hook_depth;

void cm_process_stamp(void)
{
}

const struct cm_policy *cm_process_policy(void)
{
	static struct cm_policy policy;

	cm_policy_init(&policy);
	policy.peer_processes = true;
	return &policy;
}

int cm_record_change(const struct cm_record_request *request)
{
	(void)request;
	return 0;
}

/* fuzz_config.c has the text of the values. */
int cm_settings_change(struct cm_cache *cache, struct cm_region *region, uint64_t option,
		       const char *value)
{
	(void)region;
	if (option == CM_OPTION_memory_limit_mb)
		cm_cache_set_memory_limit(cache, (uint64_t)(uint8_t)*value * MIB);
	return option == CM_OPTION_memory_limit_mb ? 0 : -EINVAL;
}

const struct cm_driver_ops *cm_driver_ops(void)
{
	return NULL; /* only used between commands */
}

static void live(struct fixture *fixture, uint64_t *block, uint8_t how)
{
	uint64_t *at = &block[how % BLOCKS];

	if (*at)
		MUST(!fixture_put(fixture, *at));
	*at = *at ? 0 : fixture_get(fixture, (UINT64_C(1) << how % 26) + how);
	if (how & 128)
		fake_advance(how * UINT64_C(100000));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fixture_params params = {.limit_bytes = 256 * MIB, .events = 16};
	uint64_t block[BLOCKS] = {0};
	struct cm_channel *channel;
	struct fixture fixture;
	const char *complaint;
	size_t n;

	MUST(fixture_open(&fixture, &params));
	control.region = fixture.region;
	control.cache = fixture.cache;
	channel = &fixture.region->header->channel;
	while (size) {
		live(&fixture, block, data[0]);
		data++;
		n = --size < sizeof(*channel) ? size : sizeof(*channel);
		memcpy(channel, data, n);
		data += n;
		size -= n;
		/* Most random states are not POSTED, and such commands would not be run. */
		if (n && data[-1] & 1)
			channel->state = CM_CHANNEL_POSTED;
		/* No tool copies: an unlimited hold would only wait. */
		if (channel->command == CM_COMMAND_SNAPSHOT)
			channel->arg[0] %= 1000;
		(void)serve_one(channel);
		complaint = fixture_complaint(&fixture);
		if (complaint) {
			(void)fprintf(stderr, "%s\n", complaint);
			abort();
		}
	}
	fixture_close(&fixture);
	return 0;
}
