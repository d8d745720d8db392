/* SPDX-License-Identifier: MIT */
/*
 * Do dlsym and cuGetProcAddress give the same addresses, whose are they, and how is the driver's
 * library linked? For every function of hooks.def. Under the preload all that is hooked must be
 * ours, by either way.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "interpose/symbols/hooks.h"
#include "tests/gpu/kit/library.h"
#include "tests/gpu/kit/tell.h"

enum kind { HOOKED, USED };

static const struct row {
	const char *symbol;
	const char *base;
	int version;
	unsigned flags;
	enum kind kind;
} rows[] = {
#define CM_HOOK(symbol, base, version, flags) {#symbol, base, version, flags, HOOKED},
#define CM_USE(symbol, base, version, flags)  {#symbol, base, version, flags, USED},
#include "interpose/symbols/hooks.def"
};

static const char *object_of(const void *address)
{
	Dl_info info;

	if (!address)
		return "nowhere";
	if (!dladdr(address, &info) || !info.dli_fname)
		return "no object";
	if (strstr(info.dli_fname, "libcudamem"))
		return "libcudamem";
	return strstr(info.dli_fname, "libcuda") ? "libcuda" : info.dli_fname;
}

static void tell_linkage(void *driver)
{
	const struct link_map *map;
	const ElfW(Dyn) * entry;
	bool symbolic = false, versions = false;

	if (dlinfo(driver, RTLD_DI_LINKMAP, &map))
		return;
	for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		symbolic = symbolic || entry->d_tag == DT_SYMBOLIC ||
			   (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_SYMBOLIC);
		versions = versions || entry->d_tag == DT_VERDEF;
	}
	tell_text("its calls of its own functions", symbolic ? "bound inside" : "can be captured",
		  "libcuda");
	tell_text("versions of its symbols", versions ? "yes" : "no", "libcuda");
}

static int compare_roads(void *driver, const struct row *row, __typeof__(&cuGetProcAddress_v2) get,
			 int known)
{
	const void *by_name = dlsym(driver, row->symbol);
	void *by_query = NULL, *newest = NULL;
	cuuint64_t flags = row->flags & CM_HOOK_PTSZ ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
						     : CU_GET_PROC_ADDRESS_LEGACY_STREAM;

	if (row->version > known) {
		tell_fact("not in this driver, but since", row->version, "", "%s", row->symbol);
		return 0;
	}
	(void)get(row->base, &by_query, row->version, flags, NULL);
	/* As cudaGetDriverEntryPoint asks: what is not ours is a form that hooks.def has not. */
	(void)get(row->base, &newest, known, flags, NULL);
	if (library_is_here() && row->kind == HOOKED && newest &&
	    strcmp(object_of(newest), "libcudamem") != 0)
		tell_text("of the driver's own version", object_of(newest), "%s", row->base);
	if (!by_name && !by_query) {
		tell_fact("not in this driver, though since", row->version, "", "%s", row->symbol);
		return 0;
	}
	if (by_name != by_query) {
		tell_text("by dlsym", object_of(by_name), "%s", row->symbol);
		tell_text("by cuGetProcAddress", object_of(by_query), "%s", row->symbol);
	}
	if (library_is_here() && row->kind == HOOKED &&
	    (strcmp(object_of(by_name), "libcudamem") != 0 ||
	     strcmp(object_of(by_query), "libcudamem") != 0)) {
		fprintf(stderr, "%s is not ours: dlsym: %s, cuGetProcAddress: %s\n", row->symbol,
			object_of(by_name), object_of(by_query));
		return -1;
	}
	return by_name == by_query;
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(&cuDriverGetVersion) get_version;
	__typeof__(&cuGetProcAddress_v2) get;
	void *found;
	size_t i, count = sizeof(rows) / sizeof(rows[0]);
	int known = 0, same = 0, strangers = 0;

	if (!driver)
		tell_skipped("no driver: %s", dlerror());
	found = dlsym(driver, "cuGetProcAddress_v2");
	memcpy(&get, &found, sizeof(get));
	found = dlsym(driver, "cuDriverGetVersion");
	memcpy(&get_version, &found, sizeof(get_version));
	if (!get || !get_version)
		tell_skipped("a driver of before CUDA 12");
	(void)get_version(&known);
	tell_fact("version", known, "", "libcuda");
	tell_linkage(driver);
	for (i = 0; i < count; i++) {
		int result = compare_roads(driver, &rows[i], get, known);

		same += result == 1;
		strangers += result < 0;
	}
	tell_fact("the two ways agree", same, "functions", "of %zu", count);
	library_leave_figures();
	return strangers != 0;
}
