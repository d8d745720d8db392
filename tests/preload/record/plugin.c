/* SPDX-License-Identifier: MIT */
/* A library that is opened and closed again, and calls what it is told to. */
typedef void call_fn(void);

__attribute__((visibility("default"))) void plugin_call(call_fn *call);

void plugin_call(call_fn *call)
{
	call();
	__asm__ __volatile__("" : : : "memory");
}
