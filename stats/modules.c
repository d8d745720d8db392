/* SPDX-License-Identifier: MIT */
#include "stats/modules.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* How often to yield to the thread that holds the map's lock: it needs microseconds, unless it is
 * stuck. */
#define TRIES 1000

struct counts {
	uint64_t loads;
	uint64_t unloads;
};

static int read_counts(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct counts *counts = data;

	(void)bytes;
	counts->loads = info->dlpi_adds;
	counts->unloads = info->dlpi_subs;
	return 1; /* the first object says it all */
}

uint64_t cm_modules_unloads(void)
{
	struct counts counts = {0};

	(void)dl_iterate_phdr(read_counts, &counts);
	return counts.unloads;
}

void cm_modules_init(struct cm_modules *modules, struct cm_region *region,
		     struct cm_intern_table *texts)
{
	modules->region = region;
	modules->texts = texts;
	modules->rows = 0;
	(void)pthread_mutex_init(&modules->lock, NULL);
	atomic_store(&modules->loads, 0);
	atomic_store(&modules->unloads, 0);
	atomic_store(&modules->generation, 0);
}

/* One round over the loader's list, with the map's lock held. */
struct round {
	struct cm_modules *modules;
	struct counts counts;
	uint32_t generation;
	bool first;
};

static struct cm_module *row_at(const struct cm_modules *modules, uint32_t index)
{
	return cm_region_row(modules->region, CM_TABLE_MODULE, index);
}

/* Rows that the round has met; all others are of objects that have gone. */
#define SEEN (UINT32_C(1) << 31)

static void find_range(const struct dl_phdr_info *info, struct cm_module *module)
{
	uint64_t start = UINT64_MAX, end = 0, low, high;
	ElfW(Half) i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		high = low + info->dlpi_phdr[i].p_memsz;
		start = low < start ? low : start;
		end = high > end ? high : end;
	}
	module->start = start < end ? start : end;
	module->end = end;
	module->bias = info->dlpi_addr;
}

bool cm_module_is_mapped(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
	ElfW(Half) i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];

		if (load->p_type == PT_LOAD && part->p_vaddr >= load->p_vaddr &&
		    part->p_vaddr - load->p_vaddr <= load->p_filesz &&
		    part->p_filesz <= load->p_filesz - (part->p_vaddr - load->p_vaddr))
			return true;
	}
	return false;
}

/* Notes are what NT_GNU_BUILD_ID is one of: sizes of name and description, type, both padded. */
static void find_build_id(const struct dl_phdr_info *info, struct cm_module *module)
{
	ElfW(Half) i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const uint64_t pad = phdr->p_align == 8 ? 7 : 3;
		const char *note = (const char *)(info->dlpi_addr + phdr->p_vaddr);
		uint64_t left = phdr->p_filesz, name, bytes;

		if (phdr->p_type != PT_NOTE || !cm_module_is_mapped(info, phdr))
			continue;
		for (; left >= sizeof(ElfW(Nhdr)); note += name + bytes, left -= name + bytes) {
			ElfW(Nhdr) header;

			memcpy(&header, note, sizeof(header));
			name = sizeof(header) + ((header.n_namesz + pad) & ~pad);
			bytes = (header.n_descsz + pad) & ~pad;
			if (name > left || bytes > left - name)
				break;
			if (header.n_type != NT_GNU_BUILD_ID || header.n_namesz != 4 ||
			    memcmp(note + sizeof(header), "GNU", 4) != 0)
				continue;
			module->build_id_bytes = header.n_descsz < sizeof(module->build_id)
							 ? header.n_descsz
							 : sizeof(module->build_id);
			memcpy(module->build_id, note + name, module->build_id_bytes);
			return;
		}
	}
}

static uint32_t add_text(struct cm_modules *modules, const char *text)
{
	return cm_intern_table_add(modules->texts, text, strlen(text) + 1);
}

/* The loader gives the program itself no name, and others the one that they were opened by. */
static void find_path(struct cm_modules *modules, const struct dl_phdr_info *info, bool first,
		      struct cm_module *module)
{
	char *path = modules->path;
	ssize_t n;

	if (info->dlpi_name && *info->dlpi_name) {
		module->path = add_text(modules, info->dlpi_name);
		return;
	}
	if (!first)
		return;
	module->flags |= CM_MODULE_EXECUTABLE;
	n = readlink("/proc/self/exe", path, sizeof(modules->path) - 1);
	if (n > 0) {
		path[n] = '\0';
		module->path = add_text(modules, path);
	}
}

static bool is_same(const struct cm_module *a, const struct cm_module *b)
{
	return a->start == b->start && a->end == b->end && a->bias == b->bias &&
	       a->path == b->path && a->build_id_bytes == b->build_id_bytes &&
	       !memcmp(a->build_id, b->build_id, sizeof(a->build_id));
}

/* A row of an object that has gone and whose addresses the new one takes: from the next generation
 * on they are not its own. */
static void end_overlapping(struct round *round, const struct cm_module *module)
{
	uint32_t i;

	for (i = 0; i < round->modules->rows; i++) {
		struct cm_module *row = row_at(round->modules, i);

		if (row->last != UINT32_MAX || row->start >= module->end ||
		    module->start >= row->end)
			continue;
		if (round->generation == atomic_load(&round->modules->generation))
			round->generation++;
		row->last = round->generation - 1;
	}
}

static void add_row(struct round *round, struct cm_module *module)
{
	struct cm_modules *modules = round->modules;
	uint32_t i;

	for (i = 0; i < modules->rows; i++) {
		struct cm_module *row = row_at(modules, i);

		if (row->last == UINT32_MAX && is_same(row, module)) {
			row->flags = (row->flags & ~CM_MODULE_UNLOADED) | SEEN;
			return;
		}
	}
	end_overlapping(round, module);
	if (cm_region_commit(modules->region, CM_TABLE_MODULE, modules->rows + 1)) {
		modules->region->header->record.modules_lost++;
		return;
	}
	module->first = round->generation;
	module->last = UINT32_MAX;
	module->flags |= SEEN;
	*row_at(modules, modules->rows++) = *module;
}

static int meet(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct round *round = data;
	struct cm_module module = {0};

	(void)bytes;
	round->counts.loads = info->dlpi_adds;
	round->counts.unloads = info->dlpi_subs;
	find_range(info, &module);
	find_build_id(info, &module);
	find_path(round->modules, info, round->first, &module);
	round->first = false;
	add_row(round, &module);
	return 0;
}

static void update_locked(struct cm_modules *modules)
{
	struct round round = {.modules = modules, .first = true};
	uint32_t i;

	round.generation = atomic_load(&modules->generation);
	for (i = 0; i < modules->rows; i++)
		row_at(modules, i)->flags &= ~SEEN;
	(void)dl_iterate_phdr(meet, &round);
	for (i = 0; i < modules->rows; i++) {
		struct cm_module *row = row_at(modules, i);

		if (!(row->flags & SEEN))
			row->flags |= CM_MODULE_UNLOADED;
		row->flags &= ~SEEN;
	}
	modules->region->header->record.generation = round.generation;
	atomic_store(&modules->generation, round.generation);
	atomic_store(&modules->unloads, round.counts.unloads);
	/* Release: a thread that finds its counts here finds the rows complete. */
	atomic_store_explicit(&modules->loads, round.counts.loads, memory_order_release);
}

static bool is_fresh(const struct cm_modules *modules, const struct counts *counts)
{
	return atomic_load_explicit(&modules->loads, memory_order_acquire) == counts->loads &&
	       atomic_load_explicit(&modules->unloads, memory_order_relaxed) == counts->unloads;
}

/* Only a trylock: a program that iterates over the loader's list and calls us from there holds the
 * loader's lock, for which the holder of the map's lock may wait. */
static bool lock_map(struct cm_modules *modules)
{
	int i;

	for (i = 0; i < TRIES; i++) {
		if (!pthread_mutex_trylock(&modules->lock))
			return true;
		(void)sched_yield();
	}
	return false;
}

bool cm_modules_refresh(struct cm_modules *modules, uint32_t *ret_generation, uint64_t *ret_unloads)
{
	struct counts counts = {0};

	(void)dl_iterate_phdr(read_counts, &counts);
	if (!is_fresh(modules, &counts)) {
		if (!lock_map(modules))
			return false;
		if (!is_fresh(modules, &counts))
			update_locked(modules);
		(void)pthread_mutex_unlock(&modules->lock);
	}
	*ret_generation = atomic_load_explicit(&modules->generation, memory_order_relaxed);
	*ret_unloads = counts.unloads;
	return true;
}
