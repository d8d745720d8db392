/* SPDX-License-Identifier: MIT */
/*
 * The statistics region: the layout that libcudamem writes and cudamemstat reads.
 *
 * This file is an ABI between builds of different age. Everything is fixed width and position
 * independent: rows refer to each other by 32-bit index, never by pointer; row 0 of the block and
 * segment tables is reserved, so index 0 means "none". tests/unit/stats/test_layout.c pins every
 * offset: moving a field is a new CM_LAYOUT_MAJOR, adding one at the end of a row or table a new
 * CM_LAYOUT_MINOR. A reader refuses another major and ignores what it does not know of a minor.
 *
 * Only the owning process writes, except to the command channel. The region is foreign data to a
 * reader: every count and offset is checked against the file before use (stats/reader.h).
 */
#ifndef CM_STATS_LAYOUT_H
#define CM_STATS_LAYOUT_H

#include <stdint.h>

#include "stats/layout_channel.h"
#include "stats/layout_record.h"

#define CM_LAYOUT_MAJOR 2
#define CM_LAYOUT_MINOR 0
/* "cudamem" and a zero byte, little endian; stored last, so that a reader that sees it sees all. */
#define CM_LAYOUT_MAGIC UINT64_C(0x006d656d61647563)

#define CM_REGION_PREFIX "cudamem." /* /dev/shm/cudamem.<uid>.<pid>.<starttime> */
#define CM_DEVICES_MAX   64
#define CM_BLOCKS_MAX    (1u << 23) /* rows that there is room for; a reader asks the table */
#define CM_DEVICE_NONE   UINT32_MAX
#define CM_PCI_BYTES     24

enum cm_pool { CM_POOL_ALL, CM_POOL_SMALL, CM_POOL_LARGE, CM_POOL_COUNT };

enum cm_stat {
#define CM_STAT(ENUM, returned, documented, unit, help) CM_STAT_##ENUM,
#include "stats/counters.def"
	CM_STAT_COUNT
};

enum cm_stat1 {
#define CM_STAT1(ENUM, name, unit, help) CM_STAT1_##ENUM,
#include "stats/counters.def"
	CM_STAT1_COUNT
};

enum cm_scalar {
#define CM_SCALAR(field, pytorch, help) CM_SCALAR_##field,
#include "stats/counters.def"
	CM_SCALAR_COUNT
};

/* Room for rows to come; a reader takes the smaller of its own count and the header's. */
#define CM_STAT_ROOM   16
#define CM_STAT1_ROOM  4
#define CM_SCALAR_ROOM 64

/* One family: current <= peak, and current = allocated - freed since the last accumulated reset. */
struct cm_stat4 {
	int64_t current;
	int64_t peak;
	int64_t allocated;
	int64_t freed;
};

/*
 * The families of one pool, value by value, so that a request moves few words: `allocated` follows
 * from the others (current + freed - base), and everything of CM_POOL_ALL but its peaks is the sum
 * of the small and the large pool. Where a family's peak is below its current value, that value is
 * the peak: those of active memory and of its requests are lifted only before they fall.
 * cm_stat_read (stats/counters.h) puts a family together.
 */
struct cm_stat_pool {
	int64_t current[CM_STAT_ROOM];
	int64_t peak[CM_STAT_ROOM];
	int64_t freed[CM_STAT_ROOM]; /* since the last accumulated reset */
	int64_t base[CM_STAT_ROOM];  /* current at the last accumulated reset */
};

/* Uncached memory: requests that the driver serves, and that are only counted, by kind. */
enum cm_uncached_kind {
	CM_UNCACHED_MANAGED,
	CM_UNCACHED_PITCH,
	CM_UNCACHED_ARRAY,
	CM_UNCACHED_ASYNC,
	CM_UNCACHED_VMM,
	CM_UNCACHED_FORWARDED, /* cuMemAlloc passed on: captures, odd cases */
	CM_UNCACHED_COUNT
};
#define CM_UNCACHED_ROOM 12

/*
 * One shard of a device: most devices have one. The figures of a device are the sums over its rows
 * (cm_device_row_add), peaks included: the writer moves parts of a peak between the rows, so that
 * their sum is the device's. What describes the device or counts its contexts stands in its first
 * row: later rows repeat ordinal, uuid, name and pci. Guarded by the sequence lock `seq`: odd while
 * the owner writes (stats/counters.h).
 */
struct cm_device_row {
	uint32_t seq;
	uint32_t flags;  /* CM_DEVICE_* */
	int32_t ordinal; /* CUDA's device ordinal in the process */
	uint32_t heaps;  /* live contexts with a heap */
	uint8_t uuid[16];
	char name[64];
	uint64_t total_bytes; /* of the device, as its context says */
	uint64_t free_bytes;  /* as last seen, less what was taken since; 0 where never asked */
	uint64_t free_seen_ns;
	int64_t max_split_size; /* -1: unlimited */
	uint64_t allowed_bytes; /* cap by configuration, 0: none */
	uint64_t event_next;    /* number of events ever written to this device's ring */
	uint64_t event_cleared; /* events up to this number were cleared away */
	char pci[CM_PCI_BYTES]; /* where the card is: "0000:65:00.0"; empty: unknown */
	struct cm_stat_pool stat[CM_POOL_COUNT];
	struct cm_stat4 stat1[CM_STAT1_ROOM];
	int64_t scalar[CM_SCALAR_ROOM];
	struct cm_stat4 other_bytes[CM_UNCACHED_ROOM];
	struct cm_stat4 other_count[CM_UNCACHED_ROOM];
	uint32_t first_shard; /* row + 1 of the device's first shard; 0: this is the first */
	uint32_t stops;       /* of the first shard: odd while counters move between the shards */
};

#define CM_DEVICE_USED      1u /* the row is filled */
#define CM_DEVICE_SIMULATED 2u /* the driver calls itself a simulation */
#define CM_DEVICE_PART      4u /* one of several shards: its peaks are parts of the device's */

/* A duration statistic in nanoseconds; min and max are 0 where there was none since their reset. */
struct cm_duration {
	uint64_t total_ns;
	uint64_t max_ns;
	uint64_t min_ns;
	uint64_t count;
};

/* Pinned host memory of the process. `seq` as in a device's row. */
struct cm_host_row {
	uint32_t seq;
	uint32_t flags;
	struct cm_stat4 allocated;       /* requests in use */
	struct cm_stat4 allocated_bytes; /* bytes in use */
	struct cm_stat4 active;          /* in use or waiting for the devices */
	struct cm_stat4 active_bytes;
	struct cm_stat4 segment;
	struct cm_stat4 reserved_bytes;
	struct cm_stat4 registered; /* cuMemHostRegister, passed through */
	struct cm_stat4 registered_bytes;
	struct cm_duration alloc_time;
	struct cm_duration free_time;
	uint64_t num_host_alloc; /* driver calls that pinned memory: allocated or registered */
	uint64_t num_host_free;
	uint64_t cache_hits;
	uint64_t event_next;    /* number of events ever written to CM_TABLE_HOST_EVENT */
	uint64_t event_cleared; /* events up to this number were cleared away */
	uint64_t num_host_ooms; /* requests and registrations that failed for lack of memory */
	uint64_t reserved[2];
};

enum cm_block_state {
	CM_BLOCK_NONE,    /* the row is not in use */
	CM_BLOCK_LIVE,    /* allocated: PyTorch's active_allocated */
	CM_BLOCK_PENDING, /* freed, its epoch is not complete: active_pending_free */
	CM_BLOCK_FREE,    /* inactive */
};

/*
 * One block: a part of a segment. The blocks of a segment tile it without gap, linked by prev and
 * next in address order. The allocator works on these rows themselves.
 */
struct cm_block {
	uint64_t addr;
	uint64_t size; /* bytes, multiple of 512; sum over a segment = its size */
	union {
		uint64_t requested; /* live, pending: bytes the program asked for; free device
				     * memory: 0 until its first use */
		uint32_t aged[2];   /* free host memory: freed before and after it */
	};
	uint32_t prev; /* the blocks before and after it in the segment */
	uint32_t next;
	uint32_t segment;
	uint32_t link_prev; /* list of its bin (free; not of the first one), or epoch (pending) */
	uint32_t link_next;
	uint32_t
		stack; /* live, pending: of the allocation, in CM_TABLE_STACK; 0: none; pending host
			 * memory: of the free */
	uint32_t state; /* enum cm_block_state */
	union {
		uint32_t age; /* free, of the large pool: its request number when it became free;
			       * pending host memory: number of its batch */
		uint32_t free_stack; /* pending device memory: of the free, 0: none */
	};
	union {
		uint64_t tick;  /* clock tick of the last change of state */
		uint64_t freed; /* pending device memory: event_next just after its free */
	};
};

#define CM_SEGMENT_USED     1u
#define CM_SEGMENT_SMALL    2u    /* belongs to the small pool */
#define CM_SEGMENT_EXPORTED 4u    /* IPC and the like: nothing in it is recycled */
#define CM_SEGMENT_EXACT    8u    /* one block of its own: never split */
#define CM_SEGMENT_HOST     16u   /* pinned host memory: always one block */
#define CM_SEGMENT_DIRECT   32u   /* one request passed on: given back when it is freed */
#define CM_SEGMENT_PAGED    4096u /* grows and shrinks by pages of 2 MiB: expandable_segments */
#define CM_SEGMENT_REGISTERED \
	64u /* with HOST: the program's own pages, of any address and size, cuMemHostRegister */
#define CM_SEGMENT_NAMED \
	8192u /* named to other devices: reused once events have shown it to be idle */
#define CM_SEGMENT_SETTLED \
	16384u /* with NAMED: what was allocated behind a barrier before that is idle */

/* Four bits, with HOST: the flags of cuMemHostAlloc (portable 1, mapped 2, write-combined 4), or 8
 * for memory of cuMemAllocHost. */
#define CM_SEGMENT_KIND_SHIFT 8

/* One allocation of the driver, cut into blocks. */
struct cm_segment {
	uint64_t addr;
	uint64_t size;
	uint64_t context; /* the driver's handle, for information */
	uint32_t heap;    /* row in the heap table */
	uint32_t device;  /* row in the device table; CM_DEVICE_NONE: host memory */
	uint32_t first;   /* its first block */
	uint32_t blocks;  /* how many */
	uint32_t flags;   /* CM_SEGMENT_* */
	uint32_t stack;   /* of the request that it was got for, 0: none */
	uint64_t tick;
	uint32_t busy; /* device memory: blocks that are allocated or pending */
	uint32_t reserved;
};

/* One context with a heap. */
struct cm_heap_row {
	uint64_t context;
	uint64_t context_id; /* cuCtxGetId, 0 where the driver has none */
	uint32_t device;
	uint32_t flags; /* CM_HEAP_* */
	uint64_t pending_bytes;
	uint64_t pending_blocks;
	uint64_t epoch_open;  /* number of the open epoch */
	uint64_t epoch_ready; /* all epochs up to this one are complete */
	uint64_t reserved[2];
};

#define CM_HEAP_USED     1u
#define CM_HEAP_DRAINING 2u /* caching has stopped: sticky error, or its memory was shared */
#define CM_HEAP_SHARED   4u /* others can access its memory: no ordered barrier */
#define CM_HEAP_NAMED    8u /* another device's work named its memory at the last slow request */

/* One option as it is in effect; text, so that a tool of another age can still print it. */
struct cm_option_row {
	char name[48];
	char value[64];
	char fallback[64]; /* the default */
	char origin[16];   /* default, environment, library, tool */
	char help[192];
};

enum cm_table {
	CM_TABLE_OPTION,
	CM_TABLE_DEVICE,
	CM_TABLE_HEAP,
	CM_TABLE_SEGMENT,
	CM_TABLE_BLOCK,
	CM_TABLE_MODULE,
	CM_TABLE_STACK,      /* 64-bit words, see cm_stack_frames */
	CM_TABLE_EVENT,      /* one ring a device row, `ring` rows each, one after the other */
	CM_TABLE_HOST_EVENT, /* one ring of `ring` rows, for pinned memory */
	CM_TABLE_TEXT, /* rows of 1 byte: texts that end in a zero byte, each there once; a text's
			* id is the index of its first byte, 0: none */
	/* Those below are filled by the tool when it saves a region, never by the owner. */
	CM_TABLE_SAVED, /* one row */
	CM_TABLE_SITE,  /* what return addresses mean, by generation, then address */
	CM_TABLE_FRAME,
	CM_TABLE_NAME, /* texts as in CM_TABLE_TEXT, for the frames */
	CM_TABLE_COUNT
};
#define CM_TABLE_ROOM 16

/* How a copy of a region came to be of one moment. */
enum cm_moment {
	CM_MOMENT_STILL, /* nobody changed anything meanwhile, or the process was dead or stopped */
	CM_MOMENT_HELD,  /* the process was held */
	CM_MOMENT_TORN,  /* it did not: rows may be of different moments */
	CM_MOMENT_COUNT
};

/* Why a region was saved. */
enum cm_reason {
	CM_REASON_ASKED,
	CM_REASON_OOM,  /* a request had just failed for lack of memory */
	CM_REASON_PEAK, /* more was in use than ever before */
	CM_REASON_EXIT, /* the process was about to end, or had ended */
	CM_REASON_COUNT
};

struct cm_saved {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t hold_ns; /* for how long the process was held */
	uint32_t moment;  /* enum cm_moment */
	uint32_t reason;  /* enum cm_reason */
	uint32_t life;    /* of the process then: enum cm_life of stats/reader.h */
	uint32_t named;   /* 1: symbols were looked for; those without a site have none */
	char tool[32];    /* version of cudamemstat */
	uint64_t reserved[8];
};

/* A return address, and the frames that it stands for: inlined functions come first. */
struct cm_site {
	uint64_t address;
	uint32_t generation; /* of the module map */
	uint32_t first;      /* row of CM_TABLE_FRAME */
	uint32_t count;
	uint32_t reserved;
};

struct cm_frame {
	uint32_t function; /* in CM_TABLE_NAME, like the file; 0: unknown */
	uint32_t file;
	uint32_t line;
	uint32_t reserved;
};

/* Where a table lies. offset + capacity * stride lies in the file; only `rows` rows are backed. */
struct cm_table_row {
	uint64_t offset;
	uint32_t stride;
	uint32_t capacity;
	uint32_t rows;
	uint32_t ring; /* of events: rows of one ring, a power of two; else 0 */
};

enum cm_region_state {
	CM_REGION_STARTING,
	CM_REGION_LIVE,
	CM_REGION_EXITED,
	CM_REGION_SAVED, /* a copy; CM_TABLE_SAVED tells of it if the tool made it */
};

#define CM_REGION_CONTROL    1u /* a helper thread answers commands */
#define CM_REGION_UNREMOVED  2u /* exited, but could not remove its file: a sweep does */
#define CM_REGION_FOUND_DEAD 4u /* a sweep saw that the process is gone, at the file's mtime */

/* How many times something happened in the process, beside the devices' own counters. */
enum cm_entry_point {
	CM_ENTRY_SYMBOL,    /* cu* by symbol: a program linked with -lcuda */
	CM_ENTRY_DLSYM,     /* looked up by dlsym or dlvsym */
	CM_ENTRY_GETPROC,   /* looked up by cuGetProcAddress */
	CM_ENTRY_UNCOVERED, /* looked up, ABI unknown to us, returned unwrapped */
	CM_ENTRY_CONFIG_ERRORS,
	CM_ENTRY_COUNT
};
#define CM_ENTRY_ROOM 16

struct cm_header {
	uint64_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t header_bytes;
	uint64_t file_bytes;
	uint32_t stat_count;
	uint32_t stat1_count;
	uint32_t scalar_count;
	uint32_t other_count;
	uint32_t pid;
	uint32_t uid;
	uint64_t start_time; /* /proc/PID/stat field 22: clock ticks since boot */
	uint64_t pid_namespace;
	uint32_t state; /* enum cm_region_state */
	uint32_t flags; /* CM_REGION_* */
	/* Two readings of the tick counter and of CLOCK_REALTIME turn ticks into time. */
	uint64_t tick_base;
	uint64_t time_base_ns;
	uint64_t tick_last;
	uint64_t time_last_ns;
	uint64_t driver_version;
	char version[32];                    /* of the library */
	char comm[64];                       /* program name */
	char cmdline[512];                   /* arguments, separated by blanks, cut to size */
	uint64_t entry_point[CM_ENTRY_ROOM]; /* by enum cm_entry_point */
	struct cm_table_row table[CM_TABLE_ROOM];
	struct cm_host_row host;
	struct cm_record record;
	struct cm_channel channel __attribute__((aligned(4096))); /* alone in the second page */
	uint8_t pad[4096 - sizeof(struct cm_channel)];
};

#endif
