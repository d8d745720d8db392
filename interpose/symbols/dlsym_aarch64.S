/* SPDX-License-Identifier: MIT */
/*
 * dlsym and dlvsym. The real ones take their caller from the return address, which gives RTLD_NEXT
 * and RTLD_DEFAULT their meaning. So these keep it in place: they call the filter, and without a
 * final answer they jump to the real function as if they were not there. C code does that only where the
 * compiler makes it a tail call.
 */
	.hidden	cm_entry_points_pick
	.hidden	cm_next_dlsym
	.hidden	cm_next_dlvsym

	/* entry: x0 handle, x1 name, x2 version (dlvsym), x30 return address */
	.macro	cm_lookup symbol, next, has_version
	.globl	\symbol
	.type	\symbol, %function
	.p2align 4
\symbol:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x29, -48
	.cfi_offset x30, -40
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	.if	!\has_version
	mov	x2, xzr
	.endif
	mov	x3, x30
	bl	cm_entry_points_pick
	mov	x16, x0
	mov	w17, w1			/* is_final */
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	ldp	x29, x30, [sp], #48
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	tbz	w17, #0, 1f
	mov	x0, x16
	ret
1:	adrp	x16, \next
	ldr	x16, [x16, #:lo12:\next]
	br	x16
	.cfi_endproc
	.size	\symbol, . - \symbol
	.endm

	.text
	cm_lookup dlsym, cm_next_dlsym, 0
	cm_lookup dlvsym, cm_next_dlvsym, 1

	.section .note.GNU-stack, "", %progbits
