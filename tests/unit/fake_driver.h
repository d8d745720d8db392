/* SPDX-License-Identifier: MIT */
/*
 * A driver without a device: struct cm_driver_ops over virtual memory ranges, virtual time and work
 * that the test submits. It plays the driver's part (memory with a limit, contexts, events that
 * capture all work of a context, barriers, captures, failures by plan) and that of a referee: it
 * knows which submitted work may still touch which range, and complains when memory is allocated
 * too early, when a call is made that the capture gate forbids, and when the host would hang.
 *
 * One driver at a time, since the operations carry no argument. Thread-safe but for init and fini.
 */
#ifndef CM_TESTS_UNIT_FAKE_DRIVER_H
#define CM_TESTS_UNIT_FAKE_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/base/ops.h"
#include "allocator/oom/oom.h"

#define FAKE_DEVICES_MAX  4
#define FAKE_HOST         FAKE_DEVICES_MAX /* where a device is asked for */
#define FAKE_CONTEXTS_MAX 20
#define FAKE_NAMED_MAX    256
#define FAKE_FOREVER      UINT64_MAX /* how long work lasts that fake_finish ends */

#define FAKE_INVALID_VALUE 1
#define FAKE_DEINITIALIZED 4
#define FAKE_STICKY_ERROR  700

enum fake_call {
	FAKE_MEM_ALLOC,
	FAKE_MEM_FREE,
	FAKE_MEM_INFO,
	FAKE_RANGE_RESERVE,
	FAKE_RANGE_FREE,
	FAKE_PAGE_CREATE,
	FAKE_PAGE_RELEASE,
	FAKE_PAGE_MAP,
	FAKE_PAGE_UNMAP,
	FAKE_RANGE_OPEN,
	FAKE_HOST_ALLOC,
	FAKE_HOST_FREE,
	FAKE_EVENT_CREATE,
	FAKE_EVENT_DESTROY,
	FAKE_EVENT_RECORD,
	FAKE_EVENT_QUERY,
	FAKE_EVENT_QUERY_UNGATED,
	FAKE_EVENT_WAIT_UNGATED,
	FAKE_CTX_WAIT_EVENT,
	FAKE_CTX_SYNCHRONIZE,
	FAKE_CTX_IS_DEAD,
	FAKE_CALL_COUNT
};

/* Work of a stream on one range. It begins when all before it in its stream has ended, and all that
 * a barrier laid before it waits for (`floor`: the context's work with a smaller number). */
struct fake_work {
	uint64_t number;
	uint64_t ctx;
	uint64_t stream;
	uint64_t addr;
	uint64_t bytes;
	uint64_t floor;
	uint64_t duration_ns;
	uint64_t end_ns;
	bool stale; /* its range has been allocated again, behind a barrier */
};

struct fake_memory {
	uint64_t addr;
	uint64_t bytes;
	uint64_t ctx;
	uint32_t device; /* FAKE_HOST: pinned host memory */
	uint32_t kind;   /* of host memory */
};

/* Memory without an address, named by its place in the table. */
struct fake_page {
	uint64_t bytes; /* 0: it has been released */
	uint64_t addr;  /* where it is mapped, 0: nowhere */
	uint32_t device;
	uint32_t open; /* devices that may use it, a bit for each */
	uint64_t user; /* the context that it was allocated in last */
};

struct fake_event {
	uint64_t ctx;  /* 0: not in use */
	uint64_t mark; /* captures the context's work with a smaller number */
};

struct fake_context {
	bool in_making;  /* the program has not got it: nobody can submit in it */
	uint64_t handle; /* 0: not in use */
	uint32_t device;
	uint64_t floor;
	bool reached; /* by others than its own work */
	int error;    /* what every call in it answers, 0: none */
};

struct fake_driver {
	pthread_mutex_t lock;
	pthread_cond_t gate_moved;

	/* What the test plans. */
	uint64_t limit_bytes; /* of each device, and of the host */
	uint64_t fail_call;   /* this call of the driver fails, counted from 1; 0: none */
	int fail_code;        /* FAKE_STICKY_ERROR breaks the context */
	uint64_t call_ns;     /* virtual time that a call takes */
	/* Called once, while the next answer to a request for memory, or for addresses, is under
	 * way: what another thread may do. */
	void (*meanwhile)(void *arg);
	void *meanwhile_arg;
	bool forgiving; /* where the host would hang, what lasts forever ends */
	bool modelled;  /* threads are the model's: which of them is inside the gate is not known */

	/* What another process has of device 0, beside the limit, and gives of it when it is
	 * asked. */
	uint64_t peer_bytes;
	uint64_t peer_gives;

	bool captures_in_sleep; /* a capture begins while the host sleeps */

	/* What it reads. */
	uint64_t peer_wanted; /* when it was asked last */
	uint64_t calls;       /* all together */
	uint64_t called[FAKE_CALL_COUNT];
	uint64_t used_bytes[FAKE_DEVICES_MAX + 1];
	bool failed;         /* the planned failure has happened */
	char complaint[160]; /* the first of the referee's, or "" */

	uint64_t ooms_shown;
	uint64_t ooms_told; /* how often, and what the last time */
	struct cm_oom last_oom;

	bool capturing;
	uint32_t inside_gate;
	uint64_t now_ns;
	uint64_t slept_ns; /* by the host, with nothing but queries between */
	uint64_t ticks;
	uint64_t next_work;
	struct fake_context context[FAKE_CONTEXTS_MAX];
	struct fake_memory *memory; /* by rising address */
	size_t memories, memory_room;
	uint64_t next_range; /* addresses from here on are not reserved */
	struct fake_page *page;
	size_t pages, page_room;
	struct fake_work *work; /* not ended, by rising number */
	size_t works, work_room;
	struct fake_event *event;
	size_t events, event_room;
	/* Named to devices that touch it whenever the program has it. */
	struct fake_range {
		uint64_t addr;
		uint64_t bytes;
	} named[FAKE_NAMED_MAX];
	size_t names;
};

void fake_driver_init(struct fake_driver *driver, uint64_t limit_bytes);
void fake_driver_fini(struct fake_driver *driver);
const struct cm_driver_ops *fake_driver_ops(void);

/* The lowest free handle, so that handles are used again. 0: too many. */
uint64_t fake_context_create(uint32_t device);
/* One that the program gets only with fake_context_is_made: nothing is submitted in it before. */
uint64_t fake_context_begin(uint32_t device);
void fake_context_is_made(uint64_t ctx);
/* Its work, events and memory go with it. */
void fake_context_destroy(uint64_t ctx);
/* From now on every call in the context answers `error`, and its work is over. */
void fake_context_break(uint64_t ctx, int error);

/* Submits a kernel that touches the range; its number. */
uint64_t fake_submit(uint64_t ctx, uint64_t stream, uint64_t addr, uint64_t bytes,
		     uint64_t duration_ns);
/* The same for work that cannot last without bound, as a copy: it does not move the work number. */
uint64_t fake_copy(uint64_t ctx, uint64_t stream, uint64_t addr, uint64_t bytes,
		   uint64_t duration_ns);
/* Ends work that lasts forever. */
void fake_finish(uint64_t number);
/* Whether the work has ended. */
bool fake_is_done(uint64_t work);
/* Whether the work waits, as things are, for work that lasts forever. */
bool fake_is_blocked(uint64_t work);
void fake_advance(uint64_t ns);
/* Everything ends, what lasts forever included. */
void fake_finish_all(void);

/* A capture begins (waits until nobody is inside the gate) or ends. */
void fake_capture(bool active);

/* The program gets the range: complains of work before that may run beside work to come. */
void fake_allocated(uint64_t ctx, uint64_t addr, uint64_t bytes);
/* Others can reach the context's memory now, and no barrier holds them back: complains of work
 * that still touches what has been allocated behind one. */
void fake_judge_reach(uint64_t ctx);
/* The same, and it stays so. */
void fake_reach(uint64_t ctx);
/* The same for the range alone, until the driver gets it back. */
void fake_name(uint64_t addr, uint64_t bytes);

/* The piece of the driver's memory that holds addr, or zeros. */
struct fake_memory fake_memory_of(uint64_t addr);
/* Whether the device may use the page that is mapped at addr. */
bool fake_is_open_to(uint32_t device, uint64_t addr);
size_t fake_events_alive(void);

#endif
