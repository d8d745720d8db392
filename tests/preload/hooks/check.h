/* SPDX-License-Identifier: MIT */
/* For programs that run under a preload, where a test library would only be in the way. */
#ifndef CM_TESTS_PRELOAD_DOORS_CHECK_H
#define CM_TESTS_PRELOAD_DOORS_CHECK_H

#include "interpose/symbols/hooks.h"
#include "stats/layout.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int check_failed;

#define check(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			check_failed = 1;                                                       \
		}                                                                               \
	} while (0)

/* What the driver of names returns from each of its functions. */
enum {
	number_base = 999,
#define CM_HOOK(symbol, base, version, flags)  number_##symbol,
#define CM_USE(symbol, base, version, flags)   number_##symbol,
#define CM_KNOWN(symbol, base, version, flags) number_##symbol,
#define CM_ALIAS(symbol, base, version, flags) number_alias_##symbol,
#include "interpose/symbols/hooks.def"
};

typedef int any_fn(void);

/* The object that an address lies in, by file name. */
static inline const char *owner(const void *address)
{
	const char *slash;
	Dl_info info;

	if (!dladdr(address, &info) || !info.dli_fname)
		return "";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

static inline bool is_wrapper(const void *address)
{
	return strncmp(owner(address), "libcudamem", strlen("libcudamem")) == 0;
}

/* What the library of hooks alone has counted; see alone.c. */
static inline unsigned int calls(const char *symbol)
{
	unsigned int (*function)(const char *) = (unsigned int (*)(const char *))dlsym(
		RTLD_DEFAULT, "cudamem_hooks_calls");

	return function(symbol);
}

static inline unsigned int counted(enum cm_entry_point entry)
{
	uint64_t (*function)(enum cm_entry_point) = (uint64_t(*)(enum cm_entry_point))dlsym(
		RTLD_DEFAULT, "cudamem_hooks_counted");

	return (unsigned int)function(entry);
}

/* Calls what the look-up returned and checks where it went: through our wrapper once, to
 * `number`. */
static inline void check_wrapped(void *function, const char *symbol, int number)
{
	unsigned int before = calls(symbol);

	if (!is_wrapper(function) || ((any_fn *)function)() != number ||
	    calls(symbol) != before + 1) {
		fprintf(stderr, "%s: not wrapped, or not to number %d\n", symbol, number);
		check_failed = 1;
	}
}

#endif
