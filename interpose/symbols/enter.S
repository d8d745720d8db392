/* SPDX-License-Identifier: MIT */
/*
 * cm_enter: the code to which stubs of exported symbols jump, as a macro of the assembler. It calls
 * `function(row, …)` and jumps to the function that this returns, with the argument registers and
 * the stack as the program's call left them. The row comes in eax or w17; `second` is the
 * instruction that sets the second argument.
 */
#if defined(__x86_64__)
#include <cet.h>

	.macro	cm_enter name, function, second:vararg
	.type	\name, @function
\name:
	.cfi_startproc
	subq	$56, %rsp
	.cfi_adjust_cfa_offset 56
	movq	%rdi, (%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movl	%eax, %edi
	\second
	call	\function
	movq	(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	addq	$56, %rsp
	.cfi_adjust_cfa_offset -56
	jmp	*%rax
	.cfi_endproc
	.size	\name, . - \name
	.endm

#elif defined(__aarch64__)

	.macro	cm_enter name, function, second:vararg
	.type	\name, %function
\name:
	.cfi_startproc
	stp	x29, x30, [sp, #-80]!
	.cfi_def_cfa_offset 80
	.cfi_offset x29, -80
	.cfi_offset x30, -72
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	mov	w0, w17
	\second
	bl	\function
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldp	x29, x30, [sp], #80
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	br	x16
	.cfi_endproc
	.size	\name, . - \name
	.endm

#else
#error "the entry points are written for x86-64 and aarch64"
#endif
