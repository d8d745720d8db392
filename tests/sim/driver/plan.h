/* SPDX-License-Identifier: MIT */
/*
 * The plan of a simulated machine: what it has, how long things take, what fails. Read once, at the
 * first call of the process, from the environment variable CUDASIM; see README.md for its grammar.
 */
#ifndef CM_SIM_PLAN_H
#define CM_SIM_PLAN_H

#include "call.h"

enum { SIM_MAX_DEVICES = 16, SIM_MAX_FAULTS = 32, SIM_MAX_FRAMES = 32 };

enum sim_check { SIM_CHECK_OFF, SIM_CHECK_RECORD, SIM_CHECK_STOP };

/* Makes one call fail. */
struct sim_fault {
	enum sim_call call; /* SIM_CALL_COUNT: a call of any kind that can fail */
	uint64_t at;        /* the number of the call, from 1; 0 when spent */
	CUresult code;
	bool waits; /* for the failure before it: calls are counted from there */
};

struct sim_plan {
	int devices;
	uint64_t memory;  /* bytes of each device */
	uint64_t context; /* bytes of its device that a context takes */
	char card[256];   /* path of the ledger that processes share; "": none */
	int version;      /* of the driver, as cuDriverGetVersion says it */
	bool mig;         /* devices are instances of cards, as under MIG: their names say so */
	bool abilities;   /* mapped memory can be asked for those of other memory */
	bool pageable;    /* devices reach memory of the host that no call has made or registered */
	bool real_time;
	bool guard;    /* freed device memory faults; costs system calls */
	bool teardown; /* calls answer DEINITIALIZED once exit handlers ran */
	bool peers;    /* devices can access each other */
	enum sim_check check;
	int frames; /* that the checker keeps of a stack */

	uint64_t latency_ns[SIM_CALL_COUNT];
	uint64_t kernel_ns;      /* a kernel that does not say */
	uint64_t copy_ns;        /* every copy and fill, before its bytes */
	uint64_t poll_ns;        /* virtual time of the second answer NOT_READY in a row */
	uint64_t copy_bandwidth; /* bytes a second; 0: no time for bytes */

	struct sim_fault faults[SIM_MAX_FAULTS];
	unsigned fault_count;
};

extern struct sim_plan sim_plan;

/* Sets the defaults, then what `text` says (NULL: nothing). A wrong word is told on stderr. */
void sim_plan_read(const char *text);

/* One word of the plan, "key:value". False, and nothing changed, when it is not understood. */
bool sim_plan_set(const char *word);

/* "20us", "5ms", "100" (nanoseconds). */
bool sim_plan_parse_time(const char *text, uint64_t *ret_ns);

#endif
