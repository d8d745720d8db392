/* SPDX-License-Identifier: MIT */
/*
 * How the programs of the suite tell what they found, in C and C++. A fact is a line of JSON on
 * stdout; of a compatibility program stdout is compared byte for byte with that of a run without
 * the library, so it tells results and never times, addresses or sizes of the machine. stderr is
 * for people. Thread-safe.
 */
#ifndef CM_GPU_KIT_TELL_H
#define CM_GPU_KIT_TELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Status of a program that can't run here; its last line says why. */
enum { TELL_SKIPPED = 77 };

/* {"fact": name, "where": ..., "value": value, "unit": unit}: numbers that are no number are
 * null. */
void tell_fact(const char *name, double value, const char *unit, const char *where, ...)
	__attribute__((format(printf, 4, 5)));
/* The same for a word or a short text. */
void tell_text(const char *name, const char *text, const char *where, ...)
	__attribute__((format(printf, 3, 4)));

/* Of repeated measurements, in nanoseconds: their median, and "p99". Sorts them. */
void tell_times(const char *name, uint64_t *ns, size_t count, const char *where, ...)
	__attribute__((format(printf, 4, 5)));

/* Prints the message on stderr and ends the process: with status 1, or as one that can't run
 * here. */
void tell_failure(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void tell_skipped(const char *reason, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Nanoseconds of a clock that only goes forward. */
uint64_t tell_now(void);

/* Is the driver the simulated one? It is loaded for the asking. */
bool tell_simulated(void);
/* A sum over bytes that no two contents in practice share (FNV-1a, 64 bits); from 0 on, or on. */
uint64_t tell_digest(uint64_t digest, const void *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
