/* SPDX-License-Identifier: MIT */
/*
 * The exported driver symbols, one for each CM_HOOK row, for programs linked with -lcuda. Each
 * jumps through a slot: the wrappers' own names stay hidden, so that no other library binds to the
 * functions that we return and compare with. A slot first leads to cm_entry_points_enter, which
 * finds the driver and stores the wrapper's address; from then on it costs nothing.
 *
 * No hooked function takes floating-point arguments, so those registers need no saving.
 */
#include "interpose/symbols/enter.S"

	.hidden	cm_entry_points_enter

	.macro	cm_slot symbol
	.section .data.rel.local, "aw"
	.p2align 3
.Lslot_\symbol:
	.quad	.Lfirst_\symbol
	.previous
	.set	row, row + 1
	.endm

#if defined(__x86_64__)

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
	cm_slot	\symbol
	.endm

	.text
	cm_enter enter, cm_entry_points_enter, movq %r11, %rsi /* the slot */

#else

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
	cm_slot	\symbol
	.endm

	.text
	cm_enter enter, cm_entry_points_enter, mov x1, x16 /* the slot */
#endif

	.set	row, 0
#define CM_HOOK(symbol, base, version, flags)  cm_export symbol
#define CM_USE(symbol, base, version, flags)   .set row, row + 1
#define CM_KNOWN(symbol, base, version, flags) .set row, row + 1
#define CM_ALIAS(symbol, base, version, flags) .set row, row + 1
#include "interpose/symbols/hooks.def"

	.section .note.GNU-stack, "", %progbits
