/* SPDX-License-Identifier: MIT */
/*
 * Call frame information of x86-64: from a return address to the rule by which its caller is found,
 * read from the .eh_frame that the compiler leaves in every object (System V ABI for AMD64, section
 * 3.7 and the Linux Standard Base, "Exception Frames"). A rule covers what compilers emit at calls;
 * what it cannot express is CM_RULE_NONE, and the walk has to go on by other means or to stop.
 *
 * Pure: reads the object's memory, which is mapped and within the bounds given, and nothing else.
 */
#ifndef CM_INTERPOSE_STACKS_CFI_H
#define CM_INTERPOSE_STACKS_CFI_H

#include <stddef.h>
#include <stdint.h>

/* Where the frame's CFA (the stack pointer before the call) comes from, and the frame pointer. The
 * return address is always at CFA - 8. */
enum cm_rule_kind {
	CM_RULE_NONE,   /* not known */
	CM_RULE_END,    /* the outermost frame: there is no caller; or the kernel's own */
	CM_RULE_SP,     /* CFA = stack pointer + cfa; frame pointer as it is */
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
	const uint8_t *start; /* of its loaded segments; all between is mapped or is never read */
	const uint8_t *end;
	const uint8_t *header; /* .eh_frame_hdr, inside; NULL: it has none */
	size_t header_bytes;
};

/* The rule at `pc`, an address inside the instruction that called. */
struct cm_rule cm_cfi_find(const struct cm_cfi_object *object, uint64_t pc);

#endif
