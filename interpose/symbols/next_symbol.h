/* SPDX-License-Identifier: MIT */
/*
 * Finds symbols by reading the loader's lists and hash tables, without calling the loader: we
 * replace dlsym, a failed call of it would show in the program's dlerror, and it must work before
 * the C library is ready. Calls nothing. Thread-safe.
 */
#ifndef CM_INTERPOSE_SYMBOLS_NEXT_SYMBOL_H
#define CM_INTERPOSE_SYMBOLS_NEXT_SYMBOL_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* A loaded object; `name` is the path by which the loader opened it. */
struct cm_object {
	uintptr_t bias;
	const ElfW(Dyn) * dynamic;
	const char *name;
};

/* The first and last byte of this library. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static inline bool cm_is_own_address(const void *address)
{
	return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

bool cm_text_is_equal(const char *a, const char *b);
bool cm_text_has_prefix(const char *text, const char *prefix);

/* The file name at the end of a path. */
static inline const char *cm_text_file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

/* Describes the object of `info` in any case; `dynamic` is NULL if it has no dynamic section.
 * Returns whether the address lies in it. */
bool cm_object_read(const struct dl_phdr_info *info, uintptr_t address,
		    struct cm_object *ret_object);

/* The function that the object defines under this name in its default version, or NULL. */
void *cm_object_symbol(const struct cm_object *object, const char *name);

/* The exported function that contains the address, or NULL. Reads all symbols of the object. */
const char *cm_object_function_at(const struct cm_object *object, uintptr_t address);

/* How many bytes the exported function that begins at this address has; 0: there is none. */
uintptr_t cm_object_function_bytes(const struct cm_object *object, uintptr_t address);

/* Whether the object imports a symbol that is wanted; `slot` is where the loader has stored, or
 * will store at the first call, what the symbol is bound to. Reads its relocations: no table
 * gives the number of symbols of an object without exports. */
typedef bool cm_import_fn(const char *name, void *const *slot, const void *arg);
bool cm_object_imports(const struct cm_object *object, cm_import_fn *is_wanted, const void *arg);

/* The object's DT_SONAME, or "". */
const char *cm_object_soname(const struct cm_object *object);

/* The function of this name in the next object after ours that was loaded with the program, as
 * RTLD_NEXT would find it, or NULL. */
void *cm_next_symbol(const char *name);

/* The next dlsym and dlvsym after ours; NULL until cm_next_find_lookups. */
typedef void *cm_dlsym_fn(void *handle, const char *name);
typedef void *cm_dlvsym_fn(void *handle, const char *name, const char *version);
extern cm_dlsym_fn *cm_next_dlsym __attribute__((visibility("hidden")));
extern cm_dlvsym_fn *cm_next_dlvsym __attribute__((visibility("hidden")));

/* Whether the object is this library or another copy of it, judged by its exports. */
bool cm_object_is_copy(const struct cm_object *object);

/* Finds the two, unless they are known: before the first look-up or call by symbol goes on. Late,
 * as constructors of other libraries call dlsym before ours would run. */
void cm_next_find_lookups(void);

/*
 * Whether another copy of the library was loaded before this one, as when a build tree's is
 * preloaded before an installed one. That copy serves the program, and this one passes everything
 * on: two would take each other's functions for the driver's. Valid behind cm_next_find_lookups.
 */
bool cm_next_is_behind_copy(void);

#endif
