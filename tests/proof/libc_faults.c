/* SPDX-License-Identifier: MIT */
/*
 * Stands before libcudamem.so in LD_PRELOAD and lets one call of the C library fail that the
 * library makes; nobody else's. LIBC_FAULT=NAME@N=ERRNO names it: the N-th call of NAME; ERRNO -9
 * kills the process there. LIBC_FAULT_REPORT=path leaves a line "NAME CALLS" for each function at
 * the end.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum fault {
#define FAULT(type, name, params, args, errors, answer) FAULT_##name,
#include "tests/proof/libc_faults.def"
#undef FAULT
	FAULT_COUNT
};

static const char *const names[] = {
#define FAULT(type, name, params, args, errors, answer) #name,
#include "tests/proof/libc_faults.def"
#undef FAULT
};

static void *next[FAULT_COUNT];
static _Atomic unsigned calls[FAULT_COUNT];
static uintptr_t first, end; /* of the library */
static int chosen = -1, error;
static unsigned chosen_call;

/* What dlsym needs while it looks for these. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_memalign(size_t a, size_t n);

static int note_library(struct dl_phdr_info *info, size_t bytes, void *data)
{
	int i;

	(void)bytes;
	(void)data;
	if (!strstr(info->dlpi_name, "/libcudamem"))
		return 0;
	first = UINTPTR_MAX;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + header->p_vaddr;

		if (header->p_type != PT_LOAD)
			continue;
		first = at < first ? at : first;
		end = at + header->p_memsz > end ? at + header->p_memsz : end;
	}
	return 1;
}

static void read_choice(const char *text)
{
	char name[64];
	int i;

	/* NOLINTNEXTLINE(cert-err34-c): written by the test */
	if (!text || sscanf(text, "%63[^@]@%u=%d", name, &chosen_call, &error) != 3)
		return;
	for (i = 0; i < FAULT_COUNT; i++)
		if (!strcmp(names[i], name))
			chosen = i;
}

__attribute__((constructor)) static void begin(void)
{
	(void)dl_iterate_phdr(note_library, NULL);
	read_choice(getenv("LIBC_FAULT"));
}

__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("LIBC_FAULT_REPORT");
	FILE *file = path ? fopen(path, "w") : NULL;
	int i;

	if (!file)
		return;
	for (i = 0; i < FAULT_COUNT; i++)
		(void)fprintf(file, "%s %u\n", names[i], calls[i]);
	(void)fclose(file);
}

/* Whether this call is to fail. */
static int is_due(enum fault fault, const void *caller)
{
	const uintptr_t from = (uintptr_t)caller;

	if (from < first || from >= end)
		return 0;
	if (atomic_fetch_add(&calls[fault], 1) + 1 != chosen_call || chosen != (int)fault)
		return 0;
	if (error == -SIGKILL)
		(void)kill(getpid(), SIGKILL);
	return 1;
}

/* These are called by dlsym itself. */
static void *early(enum fault fault)
{
	if (fault == FAULT_malloc)
		return (void *)__libc_malloc;
	if (fault == FAULT_calloc)
		return (void *)__libc_calloc;
	return fault == FAULT_aligned_alloc ? (void *)__libc_memalign : NULL;
}

static void *next_of(enum fault fault)
{
	if (!next[fault])
		next[fault] = early(fault);
	if (!next[fault])
		next[fault] = dlsym(RTLD_NEXT, names[fault]);
	return next[fault];
}

#define ANSWER_ERROR error

/* By their names in the object file, as the headers declare some of them otherwise. */
#define FAULT(type, name, params, args, errors, answer)                     \
	EXPORT type fault_##name params __asm__(#name);                     \
	EXPORT type fault_##name params                                     \
	{                                                                   \
		type(*real) params = (type(*) params)next_of(FAULT_##name); \
                                                                            \
		if (!is_due(FAULT_##name, __builtin_return_address(0)))     \
			return real args;                                   \
		errno = error;                                              \
		return answer;                                              \
	}
#include "tests/proof/libc_faults.def"
