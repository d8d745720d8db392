/* SPDX-License-Identifier: MIT */
/*
 * A driver of nothing but names: every function of hooks.def, of whatever kind, returns its own
 * number, so that a test sees which one it reached, and keeps its arguments, as many as the
 * longest of them has. With FORWARD each finds its namesake in another driver by dlsym, at every
 * call, and goes there. cuGetProcAddress is in driver.c.
 */
#if defined(__x86_64__)
	.macro	keep from, index
	movq	\from, %rax
	movq	%rax, 8 * \index + arguments(%rip)
	.endm

	.macro	body symbol
	endbr64
	keep	%rdi, 0
	keep	%rsi, 1
	keep	%rdx, 2
	keep	%rcx, 3
	keep	%r8, 4
	keep	%r9, 5
	keep	8(%rsp), 6
	keep	16(%rsp), 7
	keep	24(%rsp), 8
	keep	32(%rsp), 9
	keep	40(%rsp), 10
#ifdef FORWARD
	leaq	.Lname_\symbol(%rip), %rdi
	jmp	driver_forward
	.section .rodata
.Lname_\symbol:
	.asciz	"\symbol"
	.text
#else
	movl	$1000 + row, %eax
	ret
#endif
	.endm
#elif defined(__aarch64__)
	.macro	body symbol
	hint	#34
	adrp	x16, arguments
	add	x16, x16, #:lo12:arguments
	stp	x0, x1, [x16]
	stp	x2, x3, [x16, #16]
	stp	x4, x5, [x16, #32]
	stp	x6, x7, [x16, #48]
	ldp	x0, x1, [sp]
	stp	x0, x1, [x16, #64]
	ldr	x0, [sp, #16]
	str	x0, [x16, #80]
	mov	w0, #1000 + row
	ret
	.endm
#endif

	.macro	define name, symbol
	.globl	\name
	.type	\name, %function
\name:
	body	\symbol
	.size	\name, . - \name
	.endm

	/* The twin does the same at another address, and only cuGetProcAddress tells of it. */
	.macro	function symbol
	.ifnc	\symbol, cuGetProcAddress
	.ifnc	\symbol, cuGetProcAddress_v2
	define	\symbol, \symbol
#ifdef APART
	.ifc	\symbol, cuCtxRecordEvent
	.hidden	\symbol
	.endif
	.ifc	\symbol, cuGreenCtxCreate
	.hidden	\symbol
	.endif
	define	twin_\symbol, \symbol
	.hidden	twin_\symbol
#endif
	.endif
	.endif
	.set	row, row + 1
	.endm

	.text
	.set	row, 0
#define CM_HOOK(symbol, base, version, flags)  function symbol
#define CM_USE(symbol, base, version, flags)   function symbol
#define CM_KNOWN(symbol, base, version, flags) function symbol
#define CM_ALIAS(symbol, base, version, flags) .set row, row + 1
#include "interpose/symbols/hooks.def"

	.bss
	.globl	arguments
	.hidden	arguments
	.type	arguments, %object
	.p2align 3
arguments:
	.zero	8 * 11
	.size	arguments, . - arguments

	.section .note.GNU-stack, "", %progbits
