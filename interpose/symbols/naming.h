/* SPDX-License-Identifier: MIT */
/*
 * The calls of naming.def: how they reach wrappers/naming.c, and how they go on.
 *
 * A program linked with such a library calls the stub that we export (naming_exports.S), one that
 * looks the function up by dlsym gets it. A versioned symbol is exported in its version alone,
 * hidden: only references of that version bind to it, so a program that tests a weak reference for
 * NULL, or asks dlsym, learns what it would without us. A symbol without a version binds all.
 *
 * Some lookups cannot be answered with a stub: of another version, of a second copy of the library,
 * by RTLD_NEXT. They are noted (core/reached.h).
 *
 * Thread-safe.
 */
#ifndef CM_INTERPOSE_SYMBOLS_NAMING_H
#define CM_INTERPOSE_SYMBOLS_NAMING_H

#include <stddef.h>
#include <stdint.h>

/* What a call answers if its library is not loaded. */
enum cm_naming_missing {
	CM_NAMING_NOTHING, /* NULL */
	CM_NAMING_ERRNO,   /* ENOSYS */
	CM_NAMING_FAILED,  /* -1 */
	CM_NAMING_STATUS,  /* CU_FILE_DRIVER_NOT_INITIALIZED */
};

struct cm_naming {
	const char *symbol;
	const char *version; /* "": none */
	const char *library;
	void *stub; /* what we export */
	/* Tells the allocator what the call names; the arguments of NAMES say where it stands. */
	void (*name)(const struct cm_naming *row, const uint64_t args[6]);
	uint8_t first;
	uint8_t second;
	enum cm_naming_missing missing;
};

/* clang-format off */
enum {
	CM_NAMING_COUNT = 0
#define CM_NAMING(id, symbol, version, library, missing, names) + 1
#include "interpose/symbols/naming.def"
};
/* clang-format on */

#pragma GCC visibility push(hidden)

/* In the order of naming.def. */
extern const struct cm_naming cm_namings[CM_NAMING_COUNT];

/* Called by the stubs with the six argument registers: names the memory, and returns the function
 * to go on with: the next one after us, or that of the loaded library. errno is preserved. */
void *cm_naming_enter(size_t row, const uint64_t args[6]);

/* What a dlsym (version NULL) or dlvsym is to return, NULL: what the real function does. cm_next_*
 * are set. */
void *cm_naming_lookup(void *handle, const char *name, const char *version);

#pragma GCC visibility pop

#endif
