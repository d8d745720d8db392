/* SPDX-License-Identifier: MIT */
/*
 * A wrapper for every hooked function that counts the call and goes to the original: with these in
 * place of the library's own, the hooks are tested alone. The wrappers of cuGetProcAddress belong
 * to the hooks and are the real ones.
 */
	.hidden	cm_real

#if defined(__x86_64__)
	.macro	pass symbol
	.ifnc	\symbol, cuGetProcAddress
	.ifnc	\symbol, cuGetProcAddress_v2
	.globl	cm_wrap_\symbol
	.hidden	cm_wrap_\symbol
	.type	cm_wrap_\symbol, @function
cm_wrap_\symbol:
	endbr64
	lock incl calls + 4 * row(%rip)
	jmp	*cm_real + 8 * original(%rip)
	.endif
	.endif
	.endm
#elif defined(__aarch64__)
	.macro	pass symbol
	.ifnc	\symbol, cuGetProcAddress
	.ifnc	\symbol, cuGetProcAddress_v2
	.globl	cm_wrap_\symbol
	.hidden	cm_wrap_\symbol
	.type	cm_wrap_\symbol, %function
cm_wrap_\symbol:
	hint	#34
	adrp	x16, calls + 4 * row
	add	x16, x16, #:lo12:calls + 4 * row
	ldr	w17, [x16]
	add	w17, w17, #1
	str	w17, [x16]
	adrp	x16, cm_real + 8 * original
	add	x16, x16, #:lo12:cm_real + 8 * original
	ldr	x16, [x16]
	br	x16
	.endif
	.endif
	.endm
#endif

	.text
	.set	row, 0
	.set	original, 0
#define CM_HOOK(symbol, base, version, flags)                                                      \
	pass symbol; .set row, row + 1; .set original, original + 1
#define CM_USE(symbol, base, version, flags)   .set row, row + 1; .set original, original + 1
#define CM_KNOWN(symbol, base, version, flags) .set row, row + 1
#define CM_ALIAS(symbol, base, version, flags) .set row, row + 1
#include "interpose/symbols/hooks.def"

	.bss
	.globl	calls
	.hidden	calls
	.type	calls, %object
	.p2align 2
calls:
	.zero	4 * row
	.size	calls, . - calls

	.section .note.GNU-stack, "", %progbits
