/* SPDX-License-Identifier: MIT */
/*
 * What a region records of its program: events, stacks, frames, modules, and what took a service
 * away. A part of stats/layout.h, with the same rules for changes.
 */
#ifndef CM_STATS_LAYOUT_RECORD_H
#define CM_STATS_LAYOUT_RECORD_H

#include <stdint.h>

enum cm_action {
	CM_ACTION_NONE,
	CM_ACTION_ALLOC,
	CM_ACTION_FREE_REQUESTED,
	CM_ACTION_FREE_COMPLETED,
	CM_ACTION_SEGMENT_ALLOC,
	CM_ACTION_SEGMENT_FREE,
	CM_ACTION_SEGMENT_MAP,
	CM_ACTION_SEGMENT_UNMAP,
	CM_ACTION_OOM,
	CM_ACTION_SNAPSHOT,
	/* Outside the cache; `pool` is an enum cm_uncached_kind. addr: what the program calls
	 * it, for arrays and handles a number of ours. */
	CM_ACTION_OUTSIDE_ALLOC,
	CM_ACTION_OUTSIDE_FREE,
	CM_ACTION_OUTSIDE_OOM,
	/* Frees of a heap in the cache are completed, at one moment: those that are neither
	 * completed yet nor have a FREE_COMPLETED of their own, and whose numbers are above `size`
	 * and at most `addr`; the newest first. */
	CM_ACTION_FREES_COMPLETED,
	CM_ACTION_COUNT
};

/* In an event of CM_ACTION_OOM: the driver did not say what is free, as it never does of what could
 * still be pinned. */
#define CM_FREE_UNKNOWN UINT64_MAX

#define CM_RANGE_SPLIT '\x1f'

/*
 * One event of a device's ring, or of that of pinned memory. `number` counts from 1 and is stored
 * last: a row whose number is not the one expected at its place, row (number - 1) mod ring, is
 * being overwritten, the reader drops it. What can be read are the numbers from cm_event_first to
 * event_next; those below, down to event_cleared, were lost to younger ones.
 */
struct cm_event {
	uint64_t number;
	uint64_t tick;
	uint64_t addr; /* of the block or segment; oom: free bytes of the device or
			* CM_FREE_UNKNOWN; snapshot: 0; frees_completed: a number */
	uint64_t size; /* requested bytes; segment_*: of the segment; snapshot: bytes in use;
			* frees_completed: a number */
	uint32_t thread;
	uint32_t stack; /* in CM_TABLE_STACK, 0: none */
	uint8_t action; /* enum cm_action */
	uint8_t pool;   /* enum cm_pool; outside_*: enum cm_uncached_kind */
	uint16_t heap;
	uint32_t annotation; /* in CM_TABLE_TEXT: the ranges of the thread, outermost first, with
			      * CM_RANGE_SPLIT between their names; 0: none */
};

/* Number of the oldest event of a ring that can still be there; event_next + 1 where none is. */
static inline uint64_t cm_event_first(uint64_t event_next, uint64_t event_cleared, uint32_t ring,
				      uint64_t max_entries)
{
	const uint64_t kept = ring < max_entries ? ring : max_entries;
	uint64_t lost = event_next > kept ? event_next - kept : 0;

	if (lost < event_cleared)
		lost = event_cleared;
	return (lost < event_next ? lost : event_next) + 1;
}

/*
 * CM_TABLE_STACK holds 64-bit words. A stack's id is the index of its first word, which says how
 * many frames follow, innermost first; equal stacks are there once. Word 0 belongs to nobody.
 */
#define CM_STACK_FRAMES_MAX 1024u
#define CM_STACK_CUT        1u /* flag: the stack was deeper than the record */

static inline uint32_t cm_stack_frames(uint64_t word)
{
	return (uint32_t)(word & 0xffff);
}

static inline uint32_t cm_stack_flags(uint64_t word)
{
	return (uint32_t)(word >> 16 & 0xffff);
}

/* Of the module map at the time: a frame's module is the row that held its address then. */
static inline uint32_t cm_stack_generation(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint64_t cm_stack_word(uint32_t frames, uint32_t flags, uint32_t generation)
{
	return frames | (uint64_t)flags << 16 | (uint64_t)generation << 32;
}

/*
 * A frame is a return address (one more than the last byte of the call), or a Python frame: bit 63,
 * the line number in 31 bits, and a text "FUNCTION\nFILE" in CM_TABLE_TEXT. Innermost first: Python
 * frames stand where the interpreter's function that runs them stood. Those for which none is known
 * come last.
 */
#define CM_FRAME_PYTHON     (UINT64_C(1) << 63)
#define CM_FRAME_LINE_MAX   INT32_MAX
#define CM_FRAME_TEXT_SPLIT '\n'

static inline uint64_t cm_frame_python(uint32_t line, uint32_t text)
{
	return CM_FRAME_PYTHON | (uint64_t)line << 32 | text;
}

static inline uint32_t cm_frame_line(uint64_t frame)
{
	return (uint32_t)(frame >> 32 & CM_FRAME_LINE_MAX);
}

static inline uint32_t cm_frame_text(uint64_t frame)
{
	return (uint32_t)frame;
}

/*
 * A loaded object, for turning return addresses into names. One that is unloaded keeps its row;
 * only where another then takes its addresses does a new generation begin, so within one a row is
 * found by address alone: start <= address < end and first <= generation <= last.
 */
struct cm_module {
	uint64_t start; /* of its lowest loaded segment */
	uint64_t end;   /* of its highest */
	uint64_t bias;  /* load address minus link address */
	uint8_t build_id[20];
	uint32_t build_id_bytes; /* 0: it has none */
	uint32_t path;           /* in CM_TABLE_TEXT; 0: unknown */
	uint32_t flags;          /* CM_MODULE_* */
	uint32_t first;          /* generations in which the addresses are its own */
	uint32_t last;           /* UINT32_MAX: still */
};

#define CM_MODULE_UNLOADED   1u
#define CM_MODULE_EXECUTABLE 2u /* the program itself */

/* What PyTorch's _record_memory_history takes as `context`: whose stacks are captured. */
enum cm_context {
	CM_CONTEXT_NONE,
	CM_CONTEXT_STATE, /* of the blocks and segments that are there */
	CM_CONTEXT_ALLOC, /* of the events too; a free has the stack of its allocation */
	CM_CONTEXT_ALL,   /* frees have stacks of their own */
	CM_CONTEXT_COUNT
};

/* What it takes as `stacks`: which frames a stack consists of. */
enum cm_stacks { CM_STACKS_ALL, CM_STACKS_PYTHON, CM_STACKS_COUNT };

/* How the frames of Python programs are read. */
enum cm_python {
	CM_PYTHON_NONE,          /* no CPython has been found in the process */
	CM_PYTHON_UNCHECKED,     /* from memory; not yet compared with the C API */
	CM_PYTHON_CHECKED,       /* from memory, as the C API confirmed */
	CM_PYTHON_FREE_THREADED, /* by the C API alone: a build without the interpreter's lock */
	CM_PYTHON_UNKNOWN,       /* by the C API alone: a version with another layout */
	CM_PYTHON_DIFFERS,       /* by the C API alone: memory did not agree with it */
	CM_PYTHON_COUNT
};

/* What took a service away (docs/service.md). */
enum cm_cause {
	CM_CAUSE_MODE,    /* mode:stats: a tool is injected into CUDA */
	CM_CAUSE_STOPPED, /* nothing is cached from then on */
	CM_CAUSE_REACHED, /* other devices may access any memory: no ordered barrier */
	CM_CAUSE_PEERS,   /* peer access was given: no ordered barrier */
	CM_CAUSE_NAMED,   /* memory was named to other devices: it gets no ordered barrier */
	CM_CAUSE_EXACT,   /* placement:exact: memory may be shared with other processes */
	CM_CAUSE_CAPTURE, /* a stream is being captured; gone when no capture is left */
	CM_CAUSE_COUNT
};
#define CM_CAUSE_ROOM 7

/* The first cause of a kind, in one word: a call, an object, a variable or a reason in
 * CM_TABLE_TEXT, and the stack of the call, 0: it is unknown. */
static inline uint64_t cm_cause_pack(uint32_t by, uint32_t stack)
{
	return by | (uint64_t)stack << 32;
}

static inline uint32_t cm_cause_by(uint64_t word)
{
	return (uint32_t)word;
}

static inline uint32_t cm_cause_stack(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* What is being recorded, and how much of it is there. Changed by CM_COMMAND_RECORD. */
struct cm_record {
	uint32_t events;      /* 1: the rings are written */
	uint32_t context;     /* enum cm_context */
	uint32_t stacks;      /* enum cm_stacks */
	uint32_t depth;       /* frames kept of a stack, of each kind */
	uint64_t max_entries; /* of a device that are to be shown, the youngest */
	uint64_t stack_words; /* of CM_TABLE_STACK in use, word 0 included */
	uint64_t text_bytes;  /* of CM_TABLE_TEXT in use, byte 0 included */
	uint64_t stack_count; /* different stacks in the table */
	uint64_t stacks_lost; /* not recorded: the table was full, or the module map locked */
	uint64_t texts_lost;
	uint64_t modules_lost;
	uint32_t generation;   /* of the module map */
	uint16_t python;       /* enum cm_python */
	uint16_t python_minor; /* of its version 3.minor */
	uint64_t devices;      /* with events: whose, a bit a row of a first shard; 0: all */
	uint64_t cause[CM_CAUSE_ROOM]; /* by enum cm_cause; 0: none */
};

#endif
