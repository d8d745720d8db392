/* SPDX-License-Identifier: MIT */
/*
 * The exported symbols of naming.def. Each stub tells cm_naming_enter of the call, with the argument
 * registers as they are, and jumps to the function that it returns: that finds the call untouched.
 */
#include "interpose/symbols/enter.S"

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
	mov	w17, #row
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
	/* The saved argument registers, as an array. */
#if defined(__x86_64__)
	cm_enter tell, cm_naming_enter, movq %rsp, %rsi
#else
	cm_enter tell, cm_naming_enter, add x1, sp, #16
#endif

	.set	row, 0
#define CM_NAMING(id, symbol, version, library, missing, names) cm_export id, symbol, version
#include "interpose/symbols/naming.def"

	.section .note.GNU-stack, "", %progbits
