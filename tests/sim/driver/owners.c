/* SPDX-License-Identifier: MIT */
#include "owners.h"

#include <stdlib.h>

#include "spans.h"

static struct sim_spans spans;

static void release(const struct sim_access *access)
{
	sim_deed_unref(access->deed);
	sim_holding_unref(access->holding);
}

/* Takes references of its own. */
static void put(struct sim_accesses *accesses, const struct sim_access *access)
{
	unsigned i = 0;

	access->deed->refs++;
	access->holding->refs++;
	while (i < accesses->count && accesses->items[i].line != access->line)
		i++;
	if (i < accesses->count) {
		bool later = access->tick >= accesses->items[i].tick;

		release(later ? &accesses->items[i] : access);
		if (later)
			accesses->items[i] = *access;
		return;
	}
	if (i == accesses->room) {
		accesses->room = i ? 2 * i : 2;
		accesses->items = realloc(accesses->items,
					  accesses->room * sizeof(accesses->items[0]));
		if (!accesses->items)
			abort();
	}
	accesses->items[accesses->count++] = *access;
}

void sim_accesses_remove(struct sim_accesses *accesses, unsigned i)
{
	release(&accesses->items[i]);
	accesses->items[i] = accesses->items[--accesses->count];
}

void sim_accesses_settle(struct sim_accesses *accesses, const struct sim_vector *known)
{
	for (unsigned i = accesses->count; i-- > 0;) {
		if (sim_vector_has(known, accesses->items[i].line, accesses->items[i].tick))
			sim_accesses_remove(accesses, i);
	}
}

static void clear(struct sim_accesses *accesses)
{
	while (accesses->count)
		sim_accesses_remove(accesses, accesses->count - 1);
	free(accesses->items);
}

void sim_owner_add_access(struct sim_owner *owner, const struct sim_access *access)
{
	put(&owner->own, access);
}

static void forget_span(struct sim_owner *owner)
{
	if (--owner->spans)
		return;
	clear(&owner->own);
	clear(&owner->inherited);
	sim_vector_unref(owner->left_after);
	sim_holding_unref(owner->holding);
	free(owner);
}

/* What may still be under way, as far as the new owner knows. */
static void inherit_from(struct sim_owner *heir, const struct sim_accesses *accesses,
			 const struct sim_vector *left_after, const struct sim_known *known)
{
	for (unsigned i = 0; i < accesses->count; i++) {
		const struct sim_access *access = &accesses->items[i];

		if (!sim_vector_has(left_after, access->line, access->tick) &&
		    !sim_vector_has(known->thread, access->line, access->tick) &&
		    !sim_vector_has(known->allocator, access->line, access->tick))
			put(&heir->inherited, access);
	}
}

static void inherit(struct sim_owner *heir, const struct sim_owner *owner,
		    const struct sim_known *known)
{
	inherit_from(heir, &owner->own, owner->left_after, known);
	inherit_from(heir, &owner->inherited, owner->left_after, known);
}

/* The span loses the addresses, but for what sticks out at either end. */
static void cut(struct sim_span *span, uint64_t begin, uint64_t end)
{
	const struct sim_span old = *span;
	struct sim_owner *owner = old.value;

	sim_spans_remove(&spans, span);
	if (old.begin < begin) {
		sim_spans_add(&spans, old.begin, begin, owner);
		owner->spans++;
	}
	if (old.end > end) {
		sim_spans_add(&spans, end, old.end, owner);
		owner->spans++;
	}
	forget_span(owner);
}

struct sim_owner *sim_owners_allocate(struct sim_holding *holding, const struct sim_known *known,
				      struct sim_holding **ret_conflict)
{
	uint64_t end = holding->addr + holding->bytes;
	struct sim_owner *heir = calloc(1, sizeof(*heir));
	struct sim_span *span;

	if (!heir)
		abort();
	*ret_conflict = NULL;
	while ((span = sim_spans_first(&spans, holding->addr, end))) {
		struct sim_owner *owner = span->value;

		if (owner->live && owner->holding->source == SIM_FROM_ALLOCATOR &&
		    holding->source == SIM_FROM_ALLOCATOR) {
			sim_holding_unref(*ret_conflict);
			*ret_conflict = owner->holding;
			owner->holding->refs++;
		}
		inherit(heir, owner, known);
		cut(span, holding->addr, end);
	}
	heir->spans = 1;
	heir->live = true;
	heir->holding = holding;
	sim_spans_add(&spans, holding->addr, end, heir);
	return heir;
}

struct sim_owner *sim_owners_find_allocated(uint64_t addr)
{
	const struct sim_span *span = sim_spans_first(&spans, addr, addr + 1);
	struct sim_owner *owner = span ? span->value : NULL;

	return owner && owner->holding->source == SIM_FROM_ALLOCATOR && owner->holding->addr == addr
		       ? owner
		       : NULL;
}

void sim_owners_free(struct sim_owner *owner, struct sim_vector *known)
{
	owner->live = false;
	sim_vector_join(&owner->left_after, known);
	if (!owner->holding->left)
		owner->holding->left = sim_place_here();
}

void sim_owners_revive(struct sim_owner *owner)
{
	owner->live = true;
	sim_vector_store(&owner->left_after, NULL);
	sim_place_unref(owner->holding->left);
	owner->holding->left = NULL;
}

void sim_owners_visit(uint64_t addr, uint64_t bytes,
		      void (*see)(struct sim_owner *owner, void *data), void *data)
{
	uint64_t end = addr + bytes;
	const struct sim_span *span = sim_spans_first(&spans, addr, end);

	while (span) {
		uint64_t next = span->end;

		see(span->value, data);
		span = sim_spans_first(&spans, next, end);
	}
}
