/* SPDX-License-Identifier: MIT */
/* See third.c. */
#ifndef CM_TESTS_PRELOAD_DOORS_THIRD_H
#define CM_TESTS_PRELOAD_DOORS_THIRD_H

/* Of all that is as old as the C library. */
#ifdef __x86_64__
#define LIBC_VERSION "GLIBC_2.2.5"
#else
#define LIBC_VERSION "GLIBC_2.17"
#endif

enum { THIRD_NOTHING, THIRD_BEHIND, THIRD_PRIVATE };

#pragma GCC visibility push(default)
int third_allocate(void);
int cuThirdAllocate(void);
int third_call_next_driver(void);
int third_is_behind(void);
#ifdef THIRD_COPY
int third_local_only(void);
#endif
void *third_find_default(const char *name);
void *third_find_next_version(const char *name, const char *version);
#pragma GCC visibility pop

#endif
