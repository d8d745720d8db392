/* SPDX-License-Identifier: MIT */
/* Processes that say anything of what they hold: nothing of it may add up to nonsense. */
#include "stats/peers.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/command_channel.h"
#include "stats/region.h"
#include "tests/unit/cmocka_all.h"

static const uint8_t uuid[16] = {1, 2, 3};
static uint64_t gives; /* what a process that is started now answers */

/* A region's device row. */
struct claim {
	uint64_t total;
	int64_t reserved;
	int64_t other;
	bool elsewhere; /* in another PID namespace */
};

struct process {
	pid_t pid;
	int ready; /* to read: its region is there */
	int go;    /* to write: it ends */
};

/* Until there is something to read from `go`. */
static void answer(struct cm_channel *channel, int go)
{
	struct pollfd over = {.fd = go, .events = POLLIN};
	struct cm_command command;

	while (!poll(&over, 1, 0)) {
		if (cm_channel_take(channel, &command)) {
			command.result[0] = gives;
			(void)cm_channel_answer(channel, &command);
		} else {
			cm_channel_wait(channel, 10);
		}
	}
}

/* In a process of its own. */
static bool claim_bytes(const char *dir, const struct claim *claim, int ready, int go)
{
	const struct cm_region_params params = {.dir = dir};
	struct cm_region *region;
	struct cm_device_row *row;
	char byte = 0;

	if (cm_region_create(&params, &region) || !region->path[0] ||
	    cm_region_commit(region, CM_TABLE_DEVICE, 1))
		return false;
	row = cm_region_row(region, CM_TABLE_DEVICE, 0);
	row->flags = CM_DEVICE_USED;
	memcpy(row->uuid, uuid, sizeof(row->uuid));
	row->total_bytes = claim->total;
	row->stat[CM_POOL_LARGE].current[CM_STAT_RESERVED_BYTES] = claim->reserved;
	row->other_bytes[CM_UNCACHED_ASYNC].current = claim->other;
	region->header->pid_namespace += claim->elsewhere;
	region->header->flags |= CM_REGION_CONTROL;
	region->header->state = CM_REGION_LIVE;
	if (write(ready, &byte, 1) != 1)
		return false;
	answer(&region->header->channel, go);
	cm_region_remove(region);
	return true;
}

static struct process start(const char *dir, const struct claim *claim)
{
	int ready[2], go[2];
	struct process process;
	char byte;

	if (pipe(ready) || pipe(go))
		fail();
	process.pid = fork();
	if (!process.pid) {
		/* Should the other side fail. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(!claim_bytes(dir, claim, ready[1], go[0]));
	}
	(void)close(ready[1]);
	(void)close(go[0]);
	process.ready = ready[0];
	process.go = go[1];
	if (process.pid < 0 || read(process.ready, &byte, 1) != 1)
		fail();
	return process;
}

static void end(const struct process *process)
{
	int status;

	assert_int_equal(write(process->go, "", 1), 1);
	(void)close(process->go);
	(void)close(process->ready);
	assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
	assert_int_equal(status, 0);
}

#define GIB    ((int64_t)1 << 30)
#define BIG    (INT64_MAX / 512) /* no device has so much */
#define MINUTE UINT64_C(60000000000)

CM_TEST(what_processes_claim_adds_up)
{
	static const struct {
		struct claim claim;
		uint32_t count;
		int64_t bytes; /* of one */
	} cases[] = {
		{{80 * GIB, 3 * GIB, GIB, false}, 2, 4 * GIB},
		{{80 * GIB, 80 * GIB, GIB, false}, 2, 80 * GIB},
		{{80 * GIB, 0, 0, false}, 0, 0},
		{{80 * GIB, -GIB, GIB, false}, 2, GIB},
		{{0, GIB, GIB, false}, 0, 0},
		{{INT64_MAX, INT64_MAX, INT64_MAX, false}, 2, BIG},
		{{UINT64_MAX, INT64_MAX, INT64_MAX, false}, 2, BIG},
		{{UINT64_MAX, INT64_MIN, INT64_MAX, false}, 2, BIG},
		{{(uint64_t)INT64_MAX + 1, INT64_MAX, 0, false}, 2, BIG},
		{{80 * GIB, 3 * GIB, GIB, true}, 2, 4 * GIB},
	};
	char dir[] = "cudamem-test-XXXXXX";
	struct cm_peers found;
	struct process process[2];
	size_t i;

	assert_non_null(mkdtemp(dir));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		process[0] = start(dir, &cases[i].claim);
		process[1] = start(dir, &cases[i].claim);
		cm_peers_ask(dir, uuid, 0, MINUTE, &found);
		end(&process[0]);
		end(&process[1]);
		assert_true(!found.count || found.most_pid == process[0].pid ||
			    found.most_pid == process[1].pid);
		if (found.count != cases[i].count || found.most_bytes != cases[i].bytes ||
		    found.held_bytes != 2 * cases[i].bytes)
			fail_msg("case %zu: %u have %lld, of which one has %lld", i, found.count,
				 (long long)found.held_bytes, (long long)found.most_bytes);
	}
	assert_int_equal(rmdir(dir), 0);
}

/* A request that has failed waits meanwhile. */
CM_TEST(nobody_is_looked_at_when_the_time_is_over)
{
	const struct claim claim = {80 * GIB, GIB, GIB, false};
	char dir[] = "cudamem-test-XXXXXX";
	struct process process;
	struct cm_peers found;

	assert_non_null(mkdtemp(dir));
	process = start(dir, &claim);
	cm_peers_ask(dir, uuid, 1, 0, &found);
	assert_int_equal(found.count, 0);
	assert_int_equal(found.asked, 0);
	cm_peers_ask(dir, uuid, 0, MINUTE, &found);
	assert_int_equal(found.count, 1);
	end(&process);
	assert_int_equal(rmdir(dir), 0);
}

#define PEERS 18 /* two more than are asked */

CM_TEST(the_sixteen_with_most_idle_memory_are_asked)
{
	struct claim claim = {.total = 80 * GIB};
	char dir[] = "cudamem-test-XXXXXX";
	struct process process[PEERS];
	struct cm_peers found;
	uint64_t all = 0;
	int i;

	assert_non_null(mkdtemp(dir));
	for (i = 0; i < PEERS; i++) {
		/* In no order. Each gives another number of bytes: the sum tells who was asked. */
		gives = UINT64_C(1) << (i * 7 % PEERS);
		claim.reserved = (i * 7 % PEERS + 1) * GIB;
		process[i] = start(dir, &claim);
		all |= gives;
	}
	cm_peers_ask(dir, uuid, UINT64_MAX, MINUTE, &found);
	assert_int_equal(found.count, PEERS);
	assert_int_equal(found.asked, 16);
	assert_int_equal(found.given_bytes, all & ~UINT64_C(3));
	cm_peers_ask(dir, uuid, 1, MINUTE, &found);
	assert_int_equal(found.asked, 1);
	assert_int_equal(found.given_bytes, UINT64_C(1) << (PEERS - 1));
	for (i = 0; i < PEERS; i++)
		end(&process[i]);
	assert_int_equal(rmdir(dir), 0);
}
