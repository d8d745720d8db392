/* SPDX-License-Identifier: MIT */
#include "tests/proof/losses.h"

#include <string.h>
#include <time.h>

#include "tests/proof/answers.h"
#include "tests/sim/cudasim.h"

#define HOLDINGS 1024
#define LOOKS    10000 /* a millisecond apart */

/* What the library keeps for programs comes first. All else passes it by: where that stays, the
 * program has it; but not where each of its calls has succeeded. */
static bool must_go(const struct cudasim_holding *holding)
{
	static const char *const makers[] = {"cuMemAlloc",        "cuMemHostAlloc",
					     "cuMemCreate",       "cuMemAllocAsync",
					     "cuMemAllocManaged", "cuArrayCreate"};
	const size_t kept = 3, all = sizeof(makers) / sizeof(makers[0]);
	size_t i;

	for (i = 0; i < (proof_state.broken ? kept : all); i++)
		if (!strcmp(holding->made_by, makers[i]))
			return true;
	return false;
}

static bool lies_in(const struct proof_slot *slot, const struct cudasim_holding *holding)
{
	return slot->kind != PROOF_NONE && slot->addr - holding->addr < holding->bytes;
}

/* Two frees of it have failed, as they would have without the library. */
static bool is_the_programs(const struct cudasim_holding *holding)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (lies_in(&proof_state.slot[i], holding))
			return true;
	for (i = 0; i < PROOF_OWED; i++)
		if (lies_in(&proof_state.owed[i], holding))
			return true;
	return false;
}

/* What nobody may have any more, beyond what the errors may cost. False: there is none. */
static bool find_loss(bool ended, struct cudasim_holding *ret_loss)
{
	struct cudasim_holding holding[HOLDINGS];
	unsigned n = cudasim_holdings(holding, HOLDINGS), i;
	uint64_t lost = 0;

	for (i = 0; i < n && i < HOLDINGS; i++) {
		const struct cudasim_holding *one = &holding[i];

		if (!must_go(one) || (one->error && !ended) || is_the_programs(one))
			continue;
		lost += one->count;
		if (lost > proof_state.lost) {
			*ret_loss = *one;
			return true;
		}
	}
	return false;
}

void proof_check_losses(const struct proof_hand *hand, bool ended)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct cudasim_holding loss;
	int i;

	/* A thread of the library's own may be about to give it back. */
	for (i = 0; proof_state.simulated && find_loss(ended, &loss); i++) {
		if (i == LOOKS)
			proof_wrong(hand, "%llu bytes of %s at %#llx of device %d are lost%s",
				    (unsigned long long)loss.bytes, loss.made_by,
				    (unsigned long long)loss.addr, loss.device,
				    ended ? " with their context" : "");
		(void)nanosleep(&moment, NULL);
	}
}
