/* SPDX-License-Identifier: MIT */
#include "tell.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Texts are the programs' own, and short: a quote or a control character is made a blank. */
static void put_text(const char *text)
{
	putchar('"');
	for (; *text; text++)
		putchar(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? ' ' : *text);
	putchar('"');
}

static void __attribute__((format(printf, 2, 0)))
begin_fact(const char *name, const char *where, va_list args)
{
	char text[160];

	(void)vsnprintf(text, sizeof(text), where, args);
	printf("{\"fact\": ");
	put_text(name);
	printf(", \"where\": ");
	put_text(text);
	printf(", \"value\": ");
}

void tell_fact(const char *name, double value, const char *unit, const char *where, ...)
{
	va_list args;

	flockfile(stdout);
	va_start(args, where);
	begin_fact(name, where, args);
	va_end(args);
	if (isfinite(value))
		printf("%.9g", value);
	else
		printf("null");
	printf(", \"unit\": ");
	put_text(unit);
	printf("}\n");
	(void)fflush(stdout);
	funlockfile(stdout);
}

void tell_text(const char *name, const char *text, const char *where, ...)
{
	va_list args;

	flockfile(stdout);
	va_start(args, where);
	begin_fact(name, where, args);
	va_end(args);
	put_text(text);
	printf("}\n");
	(void)fflush(stdout);
	funlockfile(stdout);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b;

	return (*x > *y) - (*x < *y);
}

void tell_times(const char *name, uint64_t *ns, size_t count, const char *where, ...)
{
	va_list args;

	if (!count)
		return;
	qsort(ns, count, sizeof(*ns), compare);
	flockfile(stdout);
	va_start(args, where);
	begin_fact(name, where, args);
	va_end(args);
	printf("%llu, \"unit\": \"ns\", \"p99\": %llu}\n", (unsigned long long)ns[count / 2],
	       (unsigned long long)ns[count * 99 / 100]);
	(void)fflush(stdout);
	funlockfile(stdout);
}

/* Without the exit handlers: the driver's may wait for work that never ends. */
static void __attribute__((format(printf, 2, 0), noreturn))
end(int status, const char *format, va_list args)
{
	(void)fflush(stdout);
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	_Exit(status);
}

void tell_failure(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end(EXIT_FAILURE, format, args);
}

void tell_skipped(const char *reason, ...)
{
	va_list args;

	va_start(args, reason);
	end(TELL_SKIPPED, reason, args);
}

uint64_t tell_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool tell_simulated(void)
{
	static _Atomic int known; /* 1: no, 2: yes */
	void *driver;

	if (!known) {
		driver = dlopen("libcuda.so.1", RTLD_LAZY);
		known = driver && dlsym(driver, "cudasim_calls") ? 2 : 1;
	}
	return known == 2;
}

uint64_t tell_digest(uint64_t digest, const void *bytes, size_t count)
{
	const unsigned char *at = (const unsigned char *)bytes;
	size_t i;

	if (!digest)
		digest = 0xcbf29ce484222325;
	for (i = 0; i < count; i++)
		digest = (digest ^ at[i]) * 0x100000001b3;
	return digest;
}
