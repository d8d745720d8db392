/* SPDX-License-Identifier: MIT */
/* Blocks of all kinds come and go. */
#include <sys/mman.h>

#include "tests/proof/answers.h"
#include "tests/proof/commands.h"
#include "tests/proof/contents.h"
#include "tests/proof/contexts.h"
#include "tests/proof/holdings.h"
#include "tests/proof/host_reads.h"
#include "tests/proof/lending.h"
#include "tests/proof/operations.h"

#define PAGE UINT64_C(4096)

/* What a program asks for, of PROOF_KINDS: the last ones each once, what comes before the rest. */
static enum proof_kind kind_of(uint64_t arg)
{
	static const enum proof_kind rare[] = {PROOF_MANAGED, PROOF_PITCH, PROOF_ASYNC,
					       PROOF_REGISTERED, PROOF_ARRAY};
	const uint64_t n = sizeof(rare) / sizeof(rare[0]), at = arg % PROOF_KINDS;

	if (at >= PROOF_KINDS - n)
		return rare[PROOF_KINDS - 1 - at];
	return at % 16 == 0 ? PROOF_PINNED : at % 16 == 1 ? PROOF_HOST : PROOF_DEVICE;
}

static bool alloc_array(struct proof_hand *hand, struct proof_slot *slot, uint64_t bytes)
{
	const CUDA_ARRAY_DESCRIPTOR array = {.Width = bytes % 4096 + 1,
					     .Height = 16,
					     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					     .NumChannels = 1};

	return MEMORY(hand, cuArrayCreate_v2, (CUarray *)&slot->extra, &array);
}

static bool alloc_registered(struct proof_hand *hand, struct proof_slot *slot)
{
	slot->bytes = (slot->bytes % (64 * PAGE) + PAGE) & ~(PAGE - 1);
	slot->extra = mmap(NULL, slot->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (slot->extra == MAP_FAILED)
		proof_wrong(hand, "no memory for the test itself");
	if (MEMORY(hand, cuMemHostRegister_v2, slot->extra, slot->bytes,
		   CU_MEMHOSTREGISTER_PORTABLE)) {
		slot->addr = (uintptr_t)slot->extra;
		return true;
	}
	(void)munmap(slot->extra, slot->bytes);
	return false;
}

static bool alloc_kind(struct proof_hand *hand, struct proof_slot *slot)
{
	size_t pitch;
	void *host;
	bool ok;

	switch (slot->kind) {
	case PROOF_DEVICE:
		return MEMORY(hand, cuMemAlloc_v2, &slot->addr, slot->bytes);
	case PROOF_PINNED:
		ok = MEMORY(hand, cuMemAllocHost_v2, &host, slot->bytes);
		slot->addr = (uintptr_t)host;
		return ok;
	case PROOF_HOST:
		ok = MEMORY(hand, cuMemHostAlloc, &host, slot->bytes, CU_MEMHOSTALLOC_PORTABLE);
		slot->addr = (uintptr_t)host;
		return ok;
	case PROOF_MANAGED:
		return MEMORY(hand, cuMemAllocManaged, &slot->addr, slot->bytes,
			      CU_MEM_ATTACH_GLOBAL);
	case PROOF_PITCH:
		ok = MEMORY(hand, cuMemAllocPitch_v2, &slot->addr, &pitch, slot->bytes % 2000 + 4,
			    slot->bytes / 2000 + 1, 4);
		slot->bytes = slot->bytes % 2000 + 4;
		return ok;
	case PROOF_ASYNC:
		return MEMORY(hand, cuMemAllocAsync, &slot->addr, slot->bytes,
			      proof_stream_of(slot)->handle);
	case PROOF_REGISTERED:
		return alloc_registered(hand, slot);
	case PROOF_ARRAY:
		return alloc_array(hand, slot, slot->bytes);
	case PROOF_NONE:
		break;
	}
	return false;
}

static void must_be_apart(struct proof_hand *hand, const struct proof_slot *made)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS && made->kind != PROOF_ARRAY; i++) {
		const struct proof_slot *slot = &proof_state.slot[i];

		if (slot != made && slot->kind != PROOF_NONE && slot->kind != PROOF_ARRAY &&
		    made->addr < slot->addr + slot->bytes && slot->addr < made->addr + made->bytes)
			proof_wrong(hand, "a block at %#llx lies in one that is in use",
				    (unsigned long long)made->addr);
	}
	if (made->kind == PROOF_DEVICE && made->addr % 256)
		proof_wrong(hand, "a block at %#llx, out of line", (unsigned long long)made->addr);
}

/*
 * What is refused for lack of memory is refused still when the library's own thread has done its
 * work: nothing that it was just giving back may have been missing.
 */
static void must_be_out(struct proof_hand *hand, struct proof_slot wanted)
{
	if (!proof_expects_same())
		return;
	proof_await_answer(hand);
	if (alloc_kind(hand, &wanted))
		proof_wrong(hand, "%llu bytes were refused, and are there",
			    (unsigned long long)wanted.bytes);
}

void proof_do_alloc(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_slot_of(hand, arg[0]),
			  made = {.kind = kind_of(arg[2]),
				  .fresh = true,
				  .bytes = arg[1] ? arg[1] : 1,
				  .ctx = hand->ctx,
				  .stream = proof_stream_number(hand, arg[0] / PROOF_THREADS % 2 +
									      arg[2] % 2)},
			  wanted = made;
	const unsigned ended = proof_state.ended;

	if (slot->kind != PROOF_NONE ||
	    (made.kind == PROOF_ASYNC && proof_stream_of(&made)->capturing))
		return;
	/* From managed memory on, frees wait for kernels too. */
	if (made.kind == PROOF_MANAGED && proof_state.run.host_reads && !proof_state.run.mapped)
		return;
	made.serial = ++hand->serial * PROOF_THREADS + hand->number;
	if (!alloc_kind(hand, &made)) {
		must_be_out(hand, wanted);
		return;
	}
	/* A capture that another thread began meanwhile counts: the library may have seen it. */
	made.native = proof_state.begun != ended || cm_holdings_pass_on();
	*slot = made;
	if (!proof_state.run.free_running)
		must_be_apart(hand, slot);
	/* At once, as a program may that has just been given memory of its own. */
	if (proof_is_hosts(slot))
		proof_write_by_cpu(hand, slot);
}

/* The memory goes back when the stream comes to it, which in a program with commands is at once: or
 * what is refused now could be there in a moment. */
static bool free_in_stream(struct proof_hand *hand, const struct proof_slot *slot)
{
	if (!CALL(hand, cuMemFreeAsync, slot->addr, proof_stream_of(slot)->handle))
		return false;
	if (proof_state.run.commands && !proof_wait_stream(hand, slot->ctx, slot->stream))
		proof_state.pooled = true;
	return true;
}

bool proof_free_kind(struct proof_hand *hand, struct proof_slot *slot)
{
	bool ok;

	switch (slot->kind) {
	case PROOF_DEVICE:
	case PROOF_MANAGED:
	case PROOF_PITCH:
		return CALL(hand, cuMemFree_v2, slot->addr);
	case PROOF_PINNED:
	case PROOF_HOST:
		return CALL(hand, cuMemFreeHost, (void *)(uintptr_t)slot->addr);
	case PROOF_ASYNC:
		return free_in_stream(hand, slot);
	case PROOF_REGISTERED:
		(void)proof_wait_stream(hand, slot->ctx, slot->stream);
		ok = CALL(hand, cuMemHostUnregister, slot->extra);
		if (ok)
			(void)munmap(slot->extra, slot->bytes);
		return ok;
	case PROOF_ARRAY:
		return CALL(hand, cuArrayDestroy, slot->extra);
	case PROOF_NONE:
		break;
	}
	return false;
}

static void owe(const struct proof_slot *slot)
{
	unsigned i;

	for (i = 0; i < PROOF_OWED; i++)
		if (proof_state.owed[i].kind == PROOF_NONE) {
			proof_state.owed[i] = *slot;
			return;
		}
}

static void remember(struct proof_hand *hand, const struct proof_slot *slot)
{
	if (slot->kind == PROOF_DEVICE)
		hand->gone = slot->addr;
	if (!proof_state.run.free_running &&
	    (slot->kind == PROOF_DEVICE || slot->kind == PROOF_PINNED || slot->kind == PROOF_HOST))
		proof_state.freed[proof_state.frees++ % PROOF_FREED] = *slot;
}

static bool waits_natively(enum proof_kind kind)
{
	return kind == PROOF_DEVICE || kind == PROOF_MANAGED || kind == PROOF_PITCH ||
	       kind == PROOF_PINNED || kind == PROOF_HOST;
}

void proof_do_free(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_slot_of(hand, arg[0]);
	const unsigned begun = proof_state.begun;
	const bool captures = begun != proof_state.ended;

	if (slot->kind == PROOF_NONE ||
	    ((slot->kind == PROOF_ASYNC || slot->kind == PROOF_REGISTERED) &&
	     proof_stream_of(slot)->capturing))
		return;
	/* Where the driver forbids it the library waits: docs/transparency.md. */
	if ((slot->kind == PROOF_PINNED || slot->kind == PROOF_HOST) && proof_state.captures)
		return;
	if (arg[0] % 2 && !slot->lent)
		proof_fetch(hand, slot);
	proof_before_free(hand, slot);
	/* The CUDA calls that free arrays and the like want the context itself. */
	if (slot->kind != PROOF_DEVICE && !proof_visit(hand, slot->ctx))
		return;
	if (proof_free_kind(hand, slot)) {
		remember(hand, slot);
		/* While a stream is captured no free waits: docs/transparency.md. */
		if (!captures && begun == proof_state.begun && waits_natively(slot->kind))
			proof_read_behind_free(hand, slot->ctx);
		proof_leave(hand, slot->kind == PROOF_DEVICE ? hand->ctx : slot->ctx);
		slot->kind = PROOF_NONE;
		return;
	}
	proof_leave(hand, slot->kind == PROOF_DEVICE ? hand->ctx : slot->ctx);
	/* An error may stand for an earlier one: nobody knows whose the block is. */
	if (proof_state.broken) {
		owe(slot);
		slot->kind = PROOF_NONE;
	}
}

static bool is_in_use(CUdeviceptr addr)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (proof_state.slot[i].kind != PROOF_NONE &&
		    addr - proof_state.slot[i].addr < proof_state.slot[i].bytes)
			return true;
	return proof_is_area(addr);
}

void proof_free_owed(struct proof_hand *hand)
{
	unsigned i;

	for (i = 0; i < PROOF_OWED; i++) {
		struct proof_slot *slot = &proof_state.owed[i];

		if (slot->kind == PROOF_NONE)
			continue;
		/* Allocated again, it was free after all. */
		if (is_in_use(slot->addr)) {
			slot->kind = PROOF_NONE;
		} else if (proof_visit(hand, slot->ctx)) {
			if (proof_free_kind(hand, slot))
				slot->kind = PROOF_NONE;
			proof_leave(hand, slot->ctx);
		}
	}
}
