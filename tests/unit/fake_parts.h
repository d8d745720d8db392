/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the fake driver share: fake_driver.c (contexts, events, the gate, time),
 * fake_work.c (work, and the referee's judgement of it) and fake_memory.c (memory and pages). For
 * them alone. But for begin the caller holds the driver's lock.
 */
#ifndef CM_TESTS_UNIT_FAKE_PARTS_H
#define CM_TESTS_UNIT_FAKE_PARTS_H

#include "tests/unit/fake_driver.h"

#define FAKE_RANGE_BASE UINT64_C(0x600000000000) /* where reserved addresses begin */

extern struct fake_driver *fake;  /* the one that plays; NULL: none */
extern uint64_t fake_work_number; /* of all drivers: it only has to move */
extern uint64_t fake_work_ended;

/* The referee's complaint; the first one stays. */
void fake_complain(const char *what, uint64_t a, uint64_t b);
void fake_set_now(uint64_t now_ns);
/* Makes room for `want` rows; ends the program if there is no memory. */
void *fake_grow(void *rows, size_t *room, size_t want, size_t size);

/* NULL: there is no such context. */
struct fake_context *fake_find_context(uint64_t ctx);

/* Begins a call and takes the lock. 0, or what the call answers at once. The second is for what is
 * of the process and no context's; the third also outside the gate. */
int fake_begin(enum fake_call call, uint64_t ctx);
int fake_begin_of_process(enum fake_call call);
int fake_begin_of_process_ungated(enum fake_call call);
/* Ends it and releases the lock; the second after what another thread does meanwhile. */
int fake_end(int result);
int fake_end_later(int result);

/* fake_work.c */
bool fake_is_over(const struct fake_work *work);
bool fake_touches(const struct fake_work *work, uint64_t addr, uint64_t bytes);
void fake_drop_ended(void);
/* What lasts forever ends. */
void fake_end_forever(void);
/* The host waits until the context's work with a smaller number has ended. */
void fake_wait_for(uint64_t ctx, uint64_t mark);
/* Whether the context's work with a smaller number has ended. */
bool fake_is_complete(uint64_t ctx, uint64_t mark);
void fake_end_work_of(uint64_t ctx);

/* fake_memory.c */
/* Whether the context may use all of the range. */
bool fake_is_given(const struct fake_context *context, uint64_t addr, uint64_t bytes);
/* The context ends: its memory, and work of others on it, end with it. */
void fake_forget_memory_of(uint64_t ctx);

/* Operations of struct cm_driver_ops, without the lock. */
int fake_mem_alloc(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr);
int fake_mem_free(uint64_t ctx, uint64_t addr);
int fake_mem_info(uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total);
int fake_host_alloc(uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr);
int fake_host_free(uint64_t ctx, uint64_t addr);
int fake_range_reserve(uint64_t bytes, uint64_t *ret_addr);
int fake_range_free(uint64_t addr, uint64_t bytes);
int fake_range_open(int32_t ordinal, uint64_t addr, uint64_t bytes);
int fake_range_open_ungated(int32_t ordinal, uint64_t addr, uint64_t bytes);
int fake_page_create(int32_t ordinal, uint64_t bytes, uint64_t *ret_page);
int fake_page_release(uint64_t handle);
int fake_page_map(uint64_t addr, uint64_t bytes, uint64_t handle);
int fake_page_unmap(uint64_t addr, uint64_t bytes);

#endif
