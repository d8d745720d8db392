/* SPDX-License-Identifier: MIT */
#include "interpose/symbols/naming.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "interpose/core/reached.h"
#include "interpose/symbols/next_symbol.h"

typedef void *dlopen_fn(const char *path, int flags);

/* The originals, each found once. */
static void *originals[CM_NAMING_COUNT];

static void *look_up(void *handle, const struct cm_naming *row)
{
	return *row->version ? cm_next_dlvsym(handle, row->symbol, row->version)
			     : cm_next_dlsym(handle, row->symbol);
}

struct search {
	const char *library;
	const char *path;
};

static int match_library(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct search *search = arg;
	struct cm_object object;

	(void)bytes;
	(void)cm_object_read(info, 0, &object);
	if (object.dynamic &&
	    (cm_text_has_prefix(cm_text_file_name(object.name), search->library) ||
	     cm_text_has_prefix(cm_object_soname(&object), search->library)))
		search->path = object.name;
	return search->path != NULL;
}

/* A handle of the library, if it is loaded. It may be in a scope that is not ours, as a library of
 * a Python module. */
static void *find_library(const char *library)
{
	struct search search = {.library = library};
	dlopen_fn *next_dlopen = (dlopen_fn *)cm_next_symbol("dlopen");

	(void)dl_iterate_phdr(match_library, &search);
	return search.path && next_dlopen ? next_dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD)
					  : NULL;
}

/* False: it is known by another address. */
static bool set_original(size_t row, void *found)
{
	void *known = NULL;

	return __atomic_compare_exchange_n(&originals[row], &known, found, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED) ||
	       known == found;
}

static void *find_original(size_t row)
{
	void *found = __atomic_load_n(&originals[row], __ATOMIC_RELAXED), *handle;

	if (found)
		return found;
	cm_next_find_lookups();
	found = look_up(RTLD_NEXT, &cm_namings[row]);
	if (!found) {
		handle = find_library(cm_namings[row].library);
		found = handle ? look_up(handle, &cm_namings[row]) : NULL;
	}
	if (found && !cm_is_own_address(found))
		(void)set_original(row, found);
	return __atomic_load_n(&originals[row], __ATOMIC_RELAXED);
}

#define CU_FILE_DRIVER_NOT_INITIALIZED 5001

static long answer_nothing(void)
{
	errno = ENOSYS;
	return 0;
}

static long answer_errno(void)
{
	return ENOSYS;
}

static long answer_failed(void)
{
	errno = ENOSYS;
	return -1;
}

static long answer_status(void)
{
	return CU_FILE_DRIVER_NOT_INITIALIZED;
}

static void *answer_of(enum cm_naming_missing missing)
{
	static long (*const answers[])(void) = {
		[CM_NAMING_NOTHING] = answer_nothing,
		[CM_NAMING_ERRNO] = answer_errno,
		[CM_NAMING_FAILED] = answer_failed,
		[CM_NAMING_STATUS] = answer_status,
	};

	return (void *)answers[missing];
}

void *cm_naming_enter(size_t row, const uint64_t args[6])
{
	const struct cm_naming *call = &cm_namings[row];
	const int error = errno;
	void *original = find_original(row);

	if (original)
		call->name(call, args);
	errno = error;
	return original ? original : answer_of(call->missing);
}

/* The first row of the symbol, CM_NAMING_COUNT: none. Few symbols begin like one of them. */
static size_t find_symbol(const char *name)
{
	size_t row;

	for (row = 0; row < CM_NAMING_COUNT; row++)
		if (cm_namings[row].symbol[0] == name[0] && cm_namings[row].symbol[1] == name[1] &&
		    cm_text_is_equal(cm_namings[row].symbol, name))
			break;
	return row;
}

/* Whether the row is what the lookup has found by `handle`. */
static bool is_found(const struct cm_naming *row, void *handle, const char *version,
		     const void *found)
{
	if (version)
		return cm_text_is_equal(row->version, version);
	return !*row->version || look_up(handle, row) == found;
}

/* The stub that calls what was found, NULL: there is none. */
static void *stub_of(size_t first, void *handle, const char *version, void *found)
{
	size_t row;

	for (row = first; row < CM_NAMING_COUNT; row++)
		if (cm_text_is_equal(cm_namings[row].symbol, cm_namings[first].symbol) &&
		    is_found(&cm_namings[row], handle, version, found))
			return set_original(row, found) ? cm_namings[row].stub : NULL;
	return NULL;
}

/* RTLD_DEFAULT finds our stub by its version and if it has none. By the name alone it finds the
 * symbol of a later object, or one in a scope of the caller that we do not know. */
void *cm_naming_lookup(void *handle, const char *name, const char *version)
{
	const size_t row = find_symbol(name);
	void *found, *stub;

	if (row == CM_NAMING_COUNT ||
	    (handle == RTLD_DEFAULT && (version || !*cm_namings[row].version)))
		return NULL;
	if (handle == RTLD_NEXT) {
		cm_reached_note(cm_namings[row].symbol);
		return NULL;
	}
	if (handle == RTLD_DEFAULT)
		handle = RTLD_NEXT;
	found = version ? cm_next_dlvsym(handle, name, version) : cm_next_dlsym(handle, name);
	if (found && cm_is_own_address(found))
		return NULL;
	stub = found ? stub_of(row, handle, version, found) : NULL;
	if (!stub && (found || (handle == RTLD_NEXT && find_library(cm_namings[row].library))))
		cm_reached_note(cm_namings[row].symbol);
	return stub;
}
