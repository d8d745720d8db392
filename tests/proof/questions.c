/* SPDX-License-Identifier: MIT */
/* What a program asks, of the driver and of the library, and what must be refused. */
#include "tests/proof/answers.h"
#include "tests/proof/commands.h"
#include "tests/proof/contents.h"
#include "tests/proof/contexts.h"
#include "tests/proof/holdings.h"
#include "tests/proof/host_reads.h"
#include "tests/proof/importer.h"
#include "tests/proof/lending.h"
#include "tests/proof/operations.h"
#include "tests/sim/cudasim.h"

#define NS_PER_MS UINT64_C(1000000)
#define CARD_UNIT (UINT64_C(2) << 20)

static void must_refuse(struct proof_hand *hand, const char *what, CUresult res, CUdeviceptr addr)
{
	if (res == CUDA_SUCCESS)
		proof_wrong(hand, "a free of %#llx, where nothing starts, succeeded",
			    (unsigned long long)addr);
	if (res != CUDA_ERROR_INVALID_VALUE && !proof_is_of_captures(res) &&
	    !proof_is_tolerated(res))
		proof_wrong(hand, "%s answered %d", what, (int)res);
}

#define REFUSED(hand, function, addr, ...) must_refuse(hand, #function, function(__VA_ARGS__), addr)

void proof_do_misfree(struct proof_hand *hand, const uint64_t *arg)
{
	const struct proof_slot *slot = proof_slot_of(hand, arg[0]);

	if (slot->kind == PROOF_DEVICE && slot->bytes > 1 + arg[1])
		REFUSED(hand, cuMemFree_v2, slot->addr + 1 + arg[1], slot->addr + 1 + arg[1]);
}

void proof_do_twice(struct proof_hand *hand, const uint64_t *arg)
{
	unsigned i;

	(void)arg;
	/* Another thread may have got it by now. A capture is told apart by what is asked in it,
	 * and without the library another block may be there. */
	if (!hand->gone || proof_state.captures || proof_state.run.free_running)
		return;
	for (i = 0; i < PROOF_SLOTS; i++)
		if (proof_state.slot[i].kind != PROOF_NONE &&
		    proof_state.slot[i].addr == hand->gone)
			return;
	if (proof_is_area(hand->gone))
		return;
	REFUSED(hand, cuMemFree_v2, hand->gone, hand->gone);
}

/* Whether it is what the address is now. */
static bool is_there(const struct proof_slot *slot, CUdeviceptr addr)
{
	return slot->kind != PROOF_NONE && slot->addr <= addr && addr - slot->addr < slot->bytes;
}

/* Whether somebody has the memory again: the words that are fetched to lie in some, too. */
static bool is_had(CUdeviceptr addr)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (is_there(&proof_state.slot[i], addr))
			return true;
	for (i = 0; i < proof_state.opened; i++)
		if ((uintptr_t)proof_state.context[i].fetched == addr)
			return true;
	return proof_is_area(addr);
}

/* Also where its context has gone meanwhile. As in twice. */
void proof_do_stale(struct proof_hand *hand, const uint64_t *arg)
{
	const struct proof_slot *slot = &proof_state.freed[arg[0] % PROOF_FREED];

	if (slot->kind == PROOF_NONE || proof_state.captures || is_had(slot->addr))
		return;
	if (slot->kind != PROOF_DEVICE)
		REFUSED(hand, cuMemFreeHost, slot->addr, (void *)(uintptr_t)slot->addr);
	else if (arg[0] / PROOF_FREED % 2)
		REFUSED(hand, cuMemFreeAsync, slot->addr, slot->addr, NULL);
	else
		REFUSED(hand, cuMemFree_v2, slot->addr, slot->addr);
}

static void ask_range(struct proof_hand *hand, const struct proof_slot *slot)
{
	CUdeviceptr base = 0;
	size_t size = 0;

	if (CALL(hand, cuMemGetAddressRange_v2, &base, &size, slot->addr + slot->bytes / 2) &&
	    (base != slot->addr || size != slot->bytes))
		proof_wrong(hand, "the address range of a block is another's");
}

void proof_do_ask(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_slot_of(hand, arg[0]);
	CUcontext owner = NULL;

	if (slot->kind != PROOF_DEVICE || !proof_visit(hand, slot->ctx))
		return;
	ask_range(hand, slot);
	if (CALL(hand, cuPointerGetAttribute, &owner, CU_POINTER_ATTRIBUTE_CONTEXT, slot->addr) &&
	    owner != proof_state.context[slot->ctx].handle)
		proof_wrong(hand, "a block of another context");
	proof_leave(hand, slot->ctx);
}

/* The other process reads and writes the block, whose work is through. */
static void be_imported(struct proof_hand *hand, struct proof_slot *slot,
			const CUipcMemHandle *handle, uint32_t value)
{
	const struct cm_import import = {.handle = *handle,
					 .device = proof_state.context[slot->ctx].device,
					 .expected = slot->value,
					 .written = value,
					 .words = proof_words_of(slot),
					 .tail = proof_tail_of(slot) - slot->addr};
	int res = cm_importer_ask(&import);

	if (res)
		proof_wrong(hand, "what another process opened: %d", res);
	slot->value = value;
}

void proof_do_export(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_slot_of(hand, arg[0]);
	uint32_t value = proof_next_value(hand);
	CUipcMemHandle handle;
	CUresult res;
	bool waited;

	if (slot->kind != PROOF_DEVICE)
		return;
	waited = proof_wait_for_lending(hand, slot) &&
		 proof_wait_stream(hand, slot->ctx, slot->stream);
	if (!proof_visit(hand, slot->ctx))
		return;
	/* A block inside an allocation can't be exported: docs/transparency.md. */
	res = cuIpcGetMemHandle(&handle, slot->addr);
	if (res != CUDA_SUCCESS && !cm_holdings_are_here() && !proof_is_tolerated(res) &&
	    !proof_is_of_captures(res))
		proof_wrong(hand, "cuIpcGetMemHandle answered %d", (int)res);
	proof_leave(hand, slot->ctx);
	if (res == CUDA_SUCCESS && proof_state.run.imports && waited && slot->known &&
	    proof_words_of(slot))
		be_imported(hand, slot, &handle, value);
}

void proof_do_mark(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_slot_of(hand, arg[0]);
	unsigned on = 1;

	if (slot->kind != PROOF_DEVICE || !proof_visit(hand, slot->ctx))
		return;
	(void)CALL(hand, cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, slot->addr);
	proof_leave(hand, slot->ctx);
}

/* Of the stand-in for libibverbs in tests/preload, with which the programs are linked. */
extern void *ibv_reg_mr(void *domain, void *addr, size_t bytes, int access);

/* The block from somewhere on. Its segment stays marked, whoever has the memory later. */
void proof_do_name(struct proof_hand *hand, const uint64_t *arg)
{
	const struct proof_slot *slot = proof_slot_of(hand, arg[0]);
	const uint64_t offset = slot->bytes ? arg[1] % slot->bytes : 0;

	if (slot->kind == PROOF_DEVICE)
		(void)ibv_reg_mr(NULL, (void *)(slot->addr + offset), slot->bytes - offset, 0);
}

/* What is on its way to the driver is free before, meanwhile and after, but for the unit of the
 * card that each driver allocation that went may have begun. */
static void must_stay_free(struct proof_hand *hand, size_t free_bytes, uint64_t segments)
{
	size_t after = 0, total;

	proof_await_answer(hand);
	/* Rows of pages also become more where some go. */
	if (!proof_state.run.pages)
		segments -= cm_holdings_segments();
	if (cuMemGetInfo_v2(&after, &total) == CUDA_SUCCESS &&
	    after > free_bytes + segments * CARD_UNIT)
		proof_wrong(hand, "%zu bytes are free, and a moment later %zu", free_bytes, after);
}

void proof_do_info(struct proof_hand *hand, const uint64_t *arg)
{
	const bool twice = proof_expects_same();
	const uint64_t segments = twice ? cm_holdings_segments() : 0;
	size_t free_bytes = 0, total = 0;

	(void)arg;
	if (!CALL(hand, cuMemGetInfo_v2, &free_bytes, &total))
		return;
	if (free_bytes > total)
		proof_wrong(hand, "more memory is free than there is");
	if (twice)
		must_stay_free(hand, free_bytes, segments);
}

void proof_do_trim(struct proof_hand *hand, const uint64_t *arg)
{
	(void)hand;
	cm_holdings_trim((unsigned)arg[0]);
}

void proof_check_counters(struct proof_hand *hand)
{
	struct cm_holdings held = {0};
	const char *complaint;
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (proof_state.slot[i].kind == PROOF_DEVICE) {
			held.blocks++;
			held.bytes += proof_state.slot[i].bytes;
		}
	/* What a driver that fails has given outside the cache nobody can count for sure. */
	complaint = cm_holdings_compare(proof_state.broken || proof_state.tolerated[0] ? NULL
										       : &held);

	if (complaint)
		proof_wrong(hand, "counters: %s", complaint);
}

void proof_do_counters(struct proof_hand *hand, const uint64_t *arg)
{
	(void)arg;
	if (!proof_state.run.free_running)
		proof_check_counters(hand);
}

void proof_do_command(struct proof_hand *hand, const uint64_t *arg)
{
	proof_post_command(hand, arg[0]);
}

void proof_do_age(struct proof_hand *hand, const uint64_t *arg)
{
	(void)hand;
	if (proof_state.simulated)
		cudasim_advance(arg[0] * NS_PER_MS);
	proof_wake_helper();
}
