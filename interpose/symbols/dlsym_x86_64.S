/* SPDX-License-Identifier: MIT */
/*
 * dlsym and dlvsym. The real ones take their caller from the return address, which gives RTLD_NEXT
 * and RTLD_DEFAULT their meaning. So these keep it in place: they call the filter, and without a
 * final answer they jump to the real function as if they were not there. C code does that only where the
 * compiler makes it a tail call.
 */
#include <cet.h>

	.hidden	cm_entry_points_pick
	.hidden	cm_next_dlsym
	.hidden	cm_next_dlvsym

	/* entry: rdi handle, rsi name, rdx version (dlvsym), (rsp) return address */
	.macro	cm_lookup symbol, next, has_version
	.globl	\symbol
	.type	\symbol, @function
	.p2align 4
\symbol:
	.cfi_startproc
	endbr64
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	.if	!\has_version
	xorl	%edx, %edx
	.endif
	movq	24(%rsp), %rcx
	call	cm_entry_points_pick
	testb	%dl, %dl		/* is_final; popping keeps the flags */
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jz	1f
	ret
1:	jmp	*\next(%rip)
	.cfi_endproc
	.size	\symbol, . - \symbol
	.endm

	.text
	cm_lookup dlsym, cm_next_dlsym, 0
	cm_lookup dlvsym, cm_next_dlvsym, 1

	.section .note.GNU-stack, "", @progbits
