/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/unwind.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "interpose/stacks/cfi.h"
#include "interpose/stacks/readable.h"

/* Far more frames than any program has on purpose; ends a walk that runs in a circle. */
#define STEPS_MAX 8192
#define PAGE_MASK UINT64_C(4095)
/* The usual limit of a stack. The pages of a larger one are checked in each walk. */
#define STACK_MAX (UINT64_C(8) << 20)

struct registers {
	uint64_t pc;
	uint64_t sp;
	uint64_t fp;
	uint64_t low;  /* readable from here, */
	uint64_t end;  /* to here */
	uint64_t last; /* byte of the page beyond that was found readable last; 0: none */
};

/* What has been found of the thread's own stack. */
static __thread struct {
	uint64_t low;  /* readable from here, */
	uint64_t end;  /* to its top */
	uint64_t hole; /* an unreadable page between another stack, which it was on, and a top */
} own;

/* What the system has put on top of a thread's stack: its descriptor, or what the program was
 * started with. The next one above `sp`, whichever stack that is on. */
static uint64_t top_above(uint64_t sp)
{
	const uint64_t thread = (uintptr_t)pthread_self(), program = getauxval(AT_RANDOM);

	return thread - sp < program - sp ? thread : program;
}

/*
 * The end of the readable memory above `sp`, as far as is known. If it reaches the top, this is the
 * thread's own stack, which stays mapped while the thread lives, so its pages are checked once. Of
 * a stack to which the program has switched, only the page of `sp` is known.
 */
static uint64_t known_end(uint64_t sp)
{
	const uint64_t next = (sp | PAGE_MASK) + 1;
	uint64_t top, stop, page;

	if (own.low <= sp && sp < own.end)
		return own.end;
	top = top_above(sp);
	stop = own.end == top ? own.low : top;
	if (top - sp > STACK_MAX || own.hole - sp < top - sp)
		return next;
	for (page = next; page < stop; page += PAGE_MASK + 1) {
		if (!cm_word_is_readable(page)) {
			own.hole = page;
			return next;
		}
	}
	own.low = sp & ~PAGE_MASK;
	own.end = top;
	return top;
}

static bool is_readable(struct registers *r, uint64_t addr)
{
	if ((addr | PAGE_MASK) == r->last)
		return true;
	if (!cm_word_is_readable(addr))
		return false;
	r->last = addr | PAGE_MASK;
	return true;
}

/* Loads two words of the stack, whose layout no sanitizer knows. The rules that led to them may be
 * wrong, as they are in hand-written code: memory that is not known to be readable is checked
 * first. */
typedef uint64_t stack_word __attribute__((may_alias));

__attribute__((no_sanitize("address"))) static bool load_pair(struct registers *r, uint64_t addr,
							      uint64_t *ret_low, uint64_t *ret_high)
{
	const stack_word *word = (const stack_word *)(uintptr_t)addr;

	if (addr & 7)
		return false;
	if (__builtin_expect(addr < r->low || addr + 16 > r->end || addr + 16 < addr, 0) &&
	    !(is_readable(r, addr) && is_readable(r, addr + 8)))
		return false;
	*ret_low = word[0];
	*ret_high = word[1];
	return true;
}

#if defined(__aarch64__)
/* Return addresses may carry a signature in their upper bits. xpaclri removes it; older processors
 * execute it as a hint. */
static uint64_t strip(uint64_t pc)
{
	register uint64_t lr __asm__("x30") = pc;

	__asm__("hint #7" : "+r"(lr)); /* xpaclri */
	return lr;
}
#else
static uint64_t strip(uint64_t pc)
{
	return pc;
}
#endif

/* One step along the chain of frame records (the caller's frame pointer, then the return address),
 * which must lead up the stack. */
static bool step_by_pointer(struct registers *r)
{
	const uint64_t record = r->fp;
	uint64_t pc;

	if (record < r->sp || !load_pair(r, record, &r->fp, &pc))
		return false;
	r->sp = record + 16;
	r->pc = strip(pc);
	return true;
}

#if defined(__x86_64__)

/*
 * A cache of rules by return address, direct mapped. A slot is one word, so it is never read
 * half-written: the tag of its address, and the rule. A multiplication maps the 47 bits of an
 * address one-to-one onto 47 others; 14 of them choose the slot, and the other 33 are the tag.
 */
#define ADDRESS_BITS 47
#define SLOT_BITS    14
#define TAG_BITS     (ADDRESS_BITS - SLOT_BITS)
#define KIND_BITS    3
#define CFA_BITS     16 /* in words of 8 bytes */
#define FP_BITS      12
#define RULE_BITS    (KIND_BITS + CFA_BITS + FP_BITS)

_Static_assert(TAG_BITS + RULE_BITS == 64, "a slot is one word");

static _Atomic uint64_t slots[1u << SLOT_BITS];
static _Atomic uint64_t known_unloads;

static uint64_t mix(uint64_t pc)
{
	return (pc * UINT64_C(0x9e3779b97f4a7c15)) & ((UINT64_C(1) << ADDRESS_BITS) - 1);
}

static uint64_t pack(const struct cm_rule *rule)
{
	return (uint64_t)rule->kind | (uint64_t)(rule->cfa / 8) << KIND_BITS |
	       (uint64_t)(rule->fp / 8) << (KIND_BITS + CFA_BITS);
}

static struct cm_rule unpack(uint64_t bits)
{
	return (struct cm_rule){
		.kind = (enum cm_rule_kind)(bits & ((1u << KIND_BITS) - 1)),
		.cfa = (uint32_t)(bits >> KIND_BITS & ((1u << CFA_BITS) - 1)) * 8,
		.fp = (uint32_t)(bits >> (KIND_BITS + CFA_BITS) & ((1u << FP_BITS) - 1)) * 8,
	};
}

struct search {
	uint64_t pc;
	struct cm_cfi_object object;
	bool found;
};

static int match_address(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct search *search = data;
	const uint8_t *base = (const uint8_t *)info->dlpi_addr;
	struct cm_cfi_object object = {.start = (const uint8_t *)UINTPTR_MAX};
	ElfW(Half) i;

	(void)bytes;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const uint8_t *start = base + phdr->p_vaddr, *end = start + phdr->p_memsz;

		if (phdr->p_type == PT_LOAD) {
			object.start = start < object.start ? start : object.start;
			object.end = end > object.end ? end : object.end;
			search->found |= search->pc - (uintptr_t)start < phdr->p_memsz;
		} else if (phdr->p_type == PT_GNU_EH_FRAME) {
			object.header = start;
			object.header_bytes = phdr->p_memsz;
		}
	}
	if (search->found)
		search->object = object;
	return search->found;
}

/* Slow: runs once for each return address. */
static struct cm_rule find_rule(uint64_t pc)
{
	/* The call precedes its return address, and may be the last instruction of its function. */
	struct search search = {.pc = pc - 1};

	(void)dl_iterate_phdr(match_address, &search);
	if (!search.found)
		return (struct cm_rule){.kind = CM_RULE_NONE};
	return cm_cfi_find(&search.object, search.pc);
}

static struct cm_rule rule_at(uint64_t pc)
{
	const uint64_t mixed = mix(pc), tag = mixed & ((UINT64_C(1) << TAG_BITS) - 1);
	const bool fits = pc >> ADDRESS_BITS == 0;
	_Atomic uint64_t *slot = &slots[mixed >> TAG_BITS];
	const uint64_t word = atomic_load_explicit(slot, memory_order_relaxed);
	struct cm_rule rule;

	/* An empty slot reads as CM_RULE_NONE. That is never cached, so that generated code is
	 * looked up every time. */
	if (fits && word >> RULE_BITS == tag && (word & ((1u << KIND_BITS) - 1)) != CM_RULE_NONE)
		return unpack(word);
	rule = find_rule(pc);
	if (rule.kind != CM_RULE_NONE && fits && rule.cfa / 8 >> CFA_BITS == 0 &&
	    rule.fp / 8 >> FP_BITS == 0)
		atomic_store_explicit(slot, tag << RULE_BITS | pack(&rule), memory_order_relaxed);
	return rule;
}

/* The CFA, and where the frame pointer is saved; 0: it is still in its register. */
static bool apply(const struct cm_rule *rule, struct registers *r, uint64_t *ret_cfa,
		  uint64_t *ret_saved)
{
	uint64_t cfa, other;

	switch (rule->kind) {
	case CM_RULE_SP:
		cfa = r->sp + rule->cfa;
		break;
	case CM_RULE_SP_FP:
		cfa = r->sp + rule->cfa;
		*ret_saved = cfa - rule->fp;
		break;
	case CM_RULE_FP:
		cfa = r->fp + rule->cfa;
		*ret_saved = cfa - rule->fp;
		break;
	case CM_RULE_FP_REF:
		if (!load_pair(r, r->fp - rule->cfa, &cfa, &other))
			return false;
		*ret_saved = r->fp;
		break;
	case CM_RULE_NONE:
	case CM_RULE_END:
	default:
		return false;
	}
	*ret_cfa = cfa;
	return cfa > r->sp && !(cfa & 7);
}

/* Steps to the caller. False if there is none, or it cannot be found. */
static bool step(struct registers *r)
{
	const struct cm_rule rule = rule_at(r->pc);
	uint64_t cfa, saved = 0, fp = r->fp, pc, below;

	if (__builtin_expect(rule.kind == CM_RULE_NONE, 0))
		return step_by_pointer(r);
	if (!apply(&rule, r, &cfa, &saved) || (saved && !load_pair(r, saved, &fp, &below)) ||
	    !load_pair(r, cfa - 16, &below, &pc))
		return false;
	r->sp = cfa;
	r->fp = fp;
	r->pc = pc;
	return true;
}

static void forget(uint64_t unloads)
{
	size_t i;

	if (atomic_load_explicit(&known_unloads, memory_order_relaxed) == unloads)
		return;
	for (i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		atomic_store_explicit(&slots[i], 0, memory_order_relaxed);
	atomic_store_explicit(&known_unloads, unloads, memory_order_relaxed);
}

#else /* the machine's ABI gives every frame a record */

static bool step(struct registers *r)
{
	return step_by_pointer(r);
}

static void forget(uint64_t unloads)
{
	(void)unloads;
}

#endif

__attribute__((noinline)) size_t cm_unwind(const struct cm_unwind_skip *skip, uint64_t unloads,
					   uint64_t *frames, size_t max, bool *ret_cut)
{
	/* Our own frame record exists because its address is taken; it leads to the caller. */
	const uint64_t record = (uintptr_t)__builtin_frame_address(0);
	struct registers r = {.sp = record, .fp = record, .low = record, .end = known_end(record)};
	size_t count = 0, steps;
	bool more = step_by_pointer(&r);

	forget(unloads);
	*ret_cut = false;
	for (steps = 0; steps < STEPS_MAX && more && r.pc; steps++, more = step(&r)) {
		if (!count && r.pc - skip->start < skip->end - skip->start)
			continue;
		if (count == max) {
			*ret_cut = true;
			break;
		}
		frames[count++] = r.pc;
	}
	return count;
}
