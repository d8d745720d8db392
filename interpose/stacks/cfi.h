/* SPDX-License-Identifier: MIT */
/*
 * Call frame information of x86-64: finds the rule for a return address that leads to its caller,
 * in the .eh_frame that compilers write into every object (System V ABI for AMD64, section 3.7;
 * Linux Standard Base, "Exception Frames"). Rules cover what compilers emit at calls; anything else
 * is CM_RULE_NONE, and the walk falls back to frame pointers or stops.
 *
 * Pure: reads the object's mapped memory within the given bounds, and nothing else.
 */
#ifndef CM_INTERPOSE_STACKS_CFI_H
#define CM_INTERPOSE_STACKS_CFI_H

#include <stddef.h>
#include <stdint.h>

/* How to find the frame's CFA (the stack pointer before the call) and frame pointer. The return
 * address is always at CFA - 8. */
enum cm_rule_kind {
	CM_RULE_NONE,   /* unknown */
	CM_RULE_END,    /* no caller: the outermost frame, or one made by the kernel */
	CM_RULE_SP,     /* CFA = stack pointer + cfa; frame pointer unchanged */
	CM_RULE_SP_FP,  /* the same; frame pointer saved at CFA - fp */
	CM_RULE_FP,     /* CFA = frame pointer + cfa; it is saved at CFA - fp */
	CM_RULE_FP_REF, /* CFA = word at frame pointer - cfa; it is saved where it points to:
			 * functions that align their stack */
};

struct cm_rule {
	enum cm_rule_kind kind;
	uint32_t cfa; /* bytes, a multiple of 8 */
	uint32_t fp;  /* bytes, a multiple of 8 */
};

/* A loaded object. */
struct cm_cfi_object {
	const uint8_t
		*start; /* of its loaded segments; whatever lies between is mapped or never read */
	const uint8_t *end;
	const uint8_t *header; /* .eh_frame_hdr, inside; NULL: it has none */
	size_t header_bytes;
};

/* The rule at `pc`, an address inside the call instruction. */
struct cm_rule cm_cfi_find(const struct cm_cfi_object *object, uint64_t pc);

#endif
