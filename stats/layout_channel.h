/* SPDX-License-Identifier: MIT */
/*
 * How a tool talks to the owner of a region: commands and their arguments, the channel, and the
 * hold for a snapshot. A part of stats/layout.h, with the same rules for changes.
 */
#ifndef CM_STATS_LAYOUT_CHANNEL_H
#define CM_STATS_LAYOUT_CHANNEL_H

#include <stdint.h>

/* A device row is that of the device's first shard, and means all its shards. */
enum cm_command_code {
	CM_COMMAND_NONE,
	CM_COMMAND_EMPTY_CACHE, /* arg 0: device row, or ~0 for all; result 0: bytes returned */
	CM_COMMAND_RESET_PEAK,  /* arg 0 as above */
	CM_COMMAND_RESET_ACCUMULATED, /* arg 0 as above */
	/* arg 0: CM_RECORD_SET_*, what to change; arg 1: to what, cm_record_pack; arg 2:
	 * max_entries; arg 3: for events and CLEAR the devices, a bit a row, 0: all and pinned
	 * memory. result 0: as arg 1, what is in effect now; result 1: max_entries. -EINVAL: a
	 * value makes no sense, nothing was changed; -ENOSPC: no space for a ring of events. */
	CM_COMMAND_RECORD,
	CM_COMMAND_CHECKPOINT, /* poll epochs and refresh free bytes: counters are current */
	/* arg 0: hold the process at its next request while the tool copies the tables, for so many
	 * ns at most (0: not at all); then an event in every ring. result 0: ns held. -ETIME: it
	 * went on before the tool was done. See `hold` below. */
	CM_COMMAND_SNAPSHOT,
	/* From a process that is short of memory. arg 0: device row; arg 1: bytes wanted; arg 2: ns
	 * to take for it at most; result 0: bytes returned to the driver. -EBUSY: not now. */
	CM_COMMAND_GIVE_BACK,
	/* Changes an option. arg 0: its row in CM_TABLE_OPTION, which says afterwards what is in
	 * effect; arg 1 to 3: the value as it would be typed, with a zero byte. -EINVAL: no such
	 * option or value; -EOPNOTSUPP: it cannot be changed while the program runs;
	 * -ENOSPC: the table has no rows. */
	CM_COMMAND_CONFIGURE,
	CM_COMMAND_COUNT
};

#define CM_RECORD_SET_EVENTS      1u
#define CM_RECORD_SET_CONTEXT     2u
#define CM_RECORD_SET_STACKS      4u
#define CM_RECORD_SET_MAX_ENTRIES 8u
#define CM_RECORD_CLEAR           16u /* forget the events up to now */
#define CM_RECORD_ALL             31u

/* Fields of struct cm_record in one argument. */
static inline uint64_t cm_record_pack(uint32_t events, uint32_t context, uint32_t stacks)
{
	return (events & 0xff) | (context & 0xff) << 8 | (stacks & 0xff) << 16;
}

static inline uint32_t cm_record_packed_events(uint64_t packed)
{
	return packed & 0xff;
}

static inline uint32_t cm_record_packed_context(uint64_t packed)
{
	return packed >> 8 & 0xff;
}

static inline uint32_t cm_record_packed_stacks(uint64_t packed)
{
	return packed >> 16 & 0xff;
}

enum cm_channel_state {
	CM_CHANNEL_IDLE,
	CM_CHANNEL_CLAIMED,
	CM_CHANNEL_POSTED,
	CM_CHANNEL_RUNNING,
	CM_CHANNEL_DONE
};

/*
 * The command channel: one command at a time. `state` is a futex. A tool moves it from IDLE to
 * CLAIMED, writes the command, stores POSTED and wakes; the owner's helper thread moves it to
 * RUNNING, then to DONE, and wakes; the tool reads the answer and stores IDLE. Tools exclude each
 * other by flock(2) on the file, which the kernel releases when a tool dies; the next tool drops
 * what the dead one left. `sender` is for information.
 */
struct cm_channel {
	uint32_t state;
	uint32_t command;
	int32_t status; /* 0, or a negative errno */
	uint32_t sender;
	uint64_t sender_start; /* start time of the sender, /proc/PID/stat field 22 */
	uint64_t arg[4];
	uint64_t result[4];
	uint32_t hold; /* enum cm_hold, a futex */
	/* Requests that ran out of memory while a tool watches: the owner counts them, and each
	 * waits until the tool has stored its number here or a later one. */
	uint32_t ooms;
	uint32_t ooms_seen; /* a futex */
	uint32_t reserved;
};

/*
 * During CM_COMMAND_SNAPSHOT: the owner stores HELD once no thread can change a table. The tool
 * copies and stores COPIED, and the owner goes on. After the time limit the owner stores ENDED and
 * goes on.
 */
#define CM_HOLD_NS_MAX 1000000 /* a longer hold is cut to this */
enum cm_hold { CM_HOLD_NONE, CM_HOLD_HELD, CM_HOLD_COPIED, CM_HOLD_ENDED };

#endif
