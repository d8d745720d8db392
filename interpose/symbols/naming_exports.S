/* SPDX-License-Identifier: MIT */
/*
 * The exported symbols of naming.def. Each stub tells cm_naming_enter of the call, with the argument
 * registers as they are, and jumps to the function that it returns: that finds the call untouched.
 */
	.hidden	cm_naming_enter

	.macro	cm_export id, symbol, version
	.globl	cm_naming_stub_\id
#if defined(__x86_64__)
	.type	cm_naming_stub_\id, @function
#else
	.type	cm_naming_stub_\id, %function
#endif
	.p2align 4
cm_naming_stub_\id:
	.cfi_startproc
#if defined(__x86_64__)
	endbr64
	movl	$row, %eax
	jmp	tell
#else
	hint	#34			/* bti c */
	mov	w16, #row
	b	tell
#endif
	.cfi_endproc
	.size	cm_naming_stub_\id, . - cm_naming_stub_\id
	.ifeqs	"\version", ""
	.globl	\symbol
#if defined(__x86_64__)
	.type	\symbol, @function
#else
	.type	\symbol, %function
#endif
	.set	\symbol, cm_naming_stub_\id
	.size	\symbol, . - cm_naming_stub_\id
	.else
	.symver	cm_naming_stub_\id, \symbol@\version
	.endif
	.set	row, row + 1
	.endm

	.text
#if defined(__x86_64__)
#include <cet.h>

	/* eax: row, the rest as the program called */
	.type	tell, @function
tell:
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
	movq	%rsp, %rsi
	call	cm_naming_enter
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
	.size	tell, . - tell

#elif defined(__aarch64__)
	/* w16: row, the rest as the program called; x6 and x7 are arguments of some, too */
	.type	tell, %function
tell:
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
	mov	w0, w16
	add	x1, sp, #16
	bl	cm_naming_enter
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
	.size	tell, . - tell

#else
#error "the entry points are written for x86-64 and aarch64"
#endif

	.set	row, 0
#define CM_NAMING(id, symbol, version, library, missing, names) cm_export id, symbol, version
#include "interpose/symbols/naming.def"

	.section .note.GNU-stack, "", %progbits
