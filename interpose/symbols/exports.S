/* SPDX-License-Identifier: MIT */
/*
 * The exported driver symbols, one for each CM_HOOK row, for programs linked with -lcuda. Each
 * jumps through a slot: the wrappers' own names stay hidden, so that no other library binds to the
 * functions that we hand out and compare with. A slot first leads to cm_entry_points_enter, which
 * finds the driver and stores the wrapper's address; from then on it costs nothing.
 *
 * No hooked function takes floating-point arguments, so those registers need no saving.
 */
	.hidden	cm_entry_points_enter

#if defined(__x86_64__)
#include <cet.h>

	.macro	cm_export symbol
	.globl	\symbol
	.type	\symbol, @function
	.p2align 4
\symbol:
	.cfi_startproc
	endbr64
	jmp	*.Lslot_\symbol(%rip)
	.cfi_endproc
	.size	\symbol, . - \symbol
.Lfirst_\symbol:
	.cfi_startproc
	endbr64
	movl	$row, %eax
	leaq	.Lslot_\symbol(%rip), %r11
	jmp	enter
	.cfi_endproc

	.section .data.rel.local, "aw"
	.p2align 3
.Lslot_\symbol:
	.quad	.Lfirst_\symbol
	.previous
	.set	row, row + 1
	.endm

	.text
	/* eax: row, r11: slot, the rest as the program called */
	.type	enter, @function
enter:
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
	movq	%r11, %rsi
	call	cm_entry_points_enter
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
	.size	enter, . - enter

#elif defined(__aarch64__)

	.macro	cm_export symbol
	.globl	\symbol
	.type	\symbol, %function
	.p2align 4
\symbol:
	.cfi_startproc
	hint	#34			/* bti c */
	adrp	x16, .Lslot_\symbol
	ldr	x16, [x16, #:lo12:.Lslot_\symbol]
	br	x16
	.cfi_endproc
	.size	\symbol, . - \symbol
.Lfirst_\symbol:
	.cfi_startproc
	hint	#34
	mov	w17, #row
	adrp	x16, .Lslot_\symbol
	add	x16, x16, #:lo12:.Lslot_\symbol
	b	enter
	.cfi_endproc

	.section .data.rel.local, "aw"
	.p2align 3
.Lslot_\symbol:
	.quad	.Lfirst_\symbol
	.previous
	.set	row, row + 1
	.endm

	.text
	/* w17: row, x16: slot, the rest as the program called */
	.type	enter, %function
enter:
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
	mov	x1, x16
	bl	cm_entry_points_enter
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
	.size	enter, . - enter

#else
#error "the entry points are written for x86-64 and aarch64"
#endif

	.set	row, 0
#define CM_HOOK(symbol, base, version, flags)  cm_export symbol
#define CM_USE(symbol, base, version, flags)   .set row, row + 1
#define CM_KNOWN(symbol, base, version, flags) .set row, row + 1
#define CM_ALIAS(symbol, base, version, flags) .set row, row + 1
#include "interpose/symbols/hooks.def"

	.section .note.GNU-stack, "", %progbits
