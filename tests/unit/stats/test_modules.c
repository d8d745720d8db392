/* SPDX-License-Identifier: MIT */
#include "stats/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

/* A loader of the test's own; NULL: the real one. */
struct object {
	const char *name;
	uint64_t addr;
	uint64_t bytes;
};

static const struct object *objects;
static size_t object_count;
static unsigned long long loads, unloads;
static uint64_t note; /* where each object has a note; 0: it has none */

typedef int iterate_fn(struct dl_phdr_info *info, size_t bytes, void *data);

int __real_dl_iterate_phdr(iterate_fn *each, void *data);
int __wrap_dl_iterate_phdr(iterate_fn *each, void *data);

int __wrap_dl_iterate_phdr(iterate_fn *each, void *data)
{
	size_t i;
	int result = 0;

	if (!objects)
		return __real_dl_iterate_phdr(each, data);
	for (i = 0; i < object_count && !result; i++) {
		const uint64_t bytes = objects[i].bytes;
		const ElfW(Phdr) parts[] = {
			{.p_type = PT_LOAD, .p_memsz = bytes, .p_filesz = bytes},
			{.p_type = PT_NOTE, .p_vaddr = note, .p_memsz = 64, .p_filesz = 64},
		};
		struct dl_phdr_info info = {.dlpi_addr = objects[i].addr,
					    .dlpi_name = objects[i].name,
					    .dlpi_phdr = parts,
					    .dlpi_phnum = note ? 2 : 1,
					    .dlpi_adds = loads,
					    .dlpi_subs = unloads};

		result = each(&info, sizeof(info), data);
	}
	return result;
}

struct fixture {
	struct cm_region *region;
	struct cm_intern_table texts;
	struct cm_modules modules;
	uint32_t generation;
	uint64_t unloads;
};

static int setup(void **state)
{
	const struct cm_region_params params = {.version = "1", .backing = CM_BACKING_MEMFD};
	struct fixture *f = calloc(1, sizeof(*f));
	struct cm_record *record;

	*state = f;
	objects = NULL;
	loads = unloads = note = 0;
	if (!f || cm_region_create(&params, &f->region))
		return -1;
	record = &f->region->header->record;
	cm_intern_table_init(&f->texts, f->region, CM_TABLE_TEXT, &record->text_bytes,
			     &record->texts_lost, NULL);
	cm_modules_init(&f->modules, f->region, &f->texts);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_intern_table_fini(&f->texts);
	cm_region_remove(f->region);
	cm_region_abandon(f->region);
	free(f);
	return 0;
}

static void refresh(struct fixture *f)
{
	assert_true(cm_modules_refresh(&f->modules, &f->generation, &f->unloads));
}

static void load(struct fixture *f, const struct object *list, size_t count, int opened, int closed)
{
	objects = list;
	object_count = count;
	loads += (unsigned)opened;
	unloads += (unsigned)closed;
	refresh(f);
}

static uint32_t count_rows(struct fixture *f)
{
	return f->region->header->table[CM_TABLE_MODULE].rows;
}

static struct cm_module *row_at(struct fixture *f, uint32_t index)
{
	assert_true(index < count_rows(f));
	return cm_region_row(f->region, CM_TABLE_MODULE, index);
}

static const char *path_of(struct fixture *f, const struct cm_module *module)
{
	return cm_region_row(f->region, CM_TABLE_TEXT, module->path);
}

/* As a reader does it. */
static const char *find(struct fixture *f, uint64_t addr, uint32_t generation)
{
	const char *found = NULL;
	uint32_t i;

	for (i = 0; i < count_rows(f); i++) {
		const struct cm_module *row = row_at(f, i);

		if (addr < row->start || addr >= row->end || generation < row->first ||
		    generation > row->last)
			continue;
		assert_null(found); /* one row at most */
		found = path_of(f, row);
	}
	return found;
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(the_program_and_its_libraries_are_there)
{
	struct fixture *f = *state;
	char exe[500];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	const struct cm_module *row;
	Dl_info info;

	assert_true(n > 0);
	exe[n] = '\0';
	refresh(f);
	assert_string_equal(find(f, (uintptr_t)the_program_and_its_libraries_are_there, 0), exe);
	row = row_at(f, 0);
	assert_int_equal(row->flags, CM_MODULE_EXECUTABLE);
	assert_string_equal(path_of(f, row), exe);
	assert_int_not_equal(dladdr((void *)cm_modules_init, &info), 0);
	assert_int_equal(row->start, (uintptr_t)info.dli_fbase);
	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "puts"), &info), 0);
	assert_string_equal(find(f, (uintptr_t)dlsym(RTLD_DEFAULT, "puts"), 0), info.dli_fname);
	/* Debian's libraries have a build-id of 20 bytes. */
	assert_true(row->build_id_bytes == 0 || row->build_id_bytes >= 8);
}

TEST(a_library_that_is_loaded_later_is_added)
{
	struct fixture *f = *state;
	uint32_t before;
	void *library;

	refresh(f);
	before = count_rows(f);
	refresh(f);
	assert_int_equal(count_rows(f), before);
	library = dlopen(MODULES "/libmpi_plain.so", RTLD_NOW);
	assert_non_null(library);
	refresh(f);
	assert_int_equal(count_rows(f), before + 1);
	assert_non_null(strstr(path_of(f, row_at(f, before)), "mpi_plain"));
	(void)dlclose(library);
	refresh(f);
	assert_int_equal(row_at(f, before)->flags & CM_MODULE_UNLOADED, CM_MODULE_UNLOADED);
	assert_int_equal(f->unloads, 1);
}

static const struct object program = {"", 0x400000, 0x1000};

/* Nothing stands where it stood: the address still means what it meant. */
TEST(an_unloaded_library_keeps_its_addresses)
{
	const struct object with[] = {program, {"/a.so", 0x10000, 0x2000}};
	struct fixture *f = *state;

	load(f, with, 2, 2, 0);
	load(f, with, 1, 0, 1);
	assert_int_equal(f->generation, 0);
	assert_int_equal(f->unloads, 1);
	assert_string_equal(find(f, 0x11fff, 0), "/a.so");
	assert_null(find(f, 0x12000, 0));
	assert_int_equal(row_at(f, 1)->flags, CM_MODULE_UNLOADED);
}

TEST(the_same_library_at_the_same_place_is_the_same_row)
{
	const struct object with[] = {program, {"/a.so", 0x10000, 0x2000}};
	struct fixture *f = *state;
	int i;

	for (i = 0; i < 5; i++) {
		load(f, with, 2, 1, 0);
		load(f, with, 1, 0, 1);
	}
	load(f, with, 2, 1, 0);
	assert_int_equal(f->generation, 0);
	assert_int_equal(count_rows(f), 2);
	assert_int_equal(row_at(f, 1)->flags, 0);
}

/* Stacks of before are named by what stood there then. */
TEST(another_library_at_the_same_place_begins_a_generation)
{
	const struct object one[] = {
		program, {"/a.so", 0x10000, 0x2000}, {"/b.so", 0x12000, 0x1000}};
	const struct object two[] = {
		program, {"/c.so", 0x11000, 0x2000}, {"/d.so", 0x20000, 0x1000}};
	struct fixture *f = *state;

	load(f, one, 3, 3, 0);
	load(f, two, 3, 2, 2);
	assert_int_equal(f->generation, 1);
	assert_int_equal(f->region->header->record.generation, 1);
	assert_string_equal(find(f, 0x11800, 0), "/a.so");
	assert_string_equal(find(f, 0x12800, 0), "/b.so");
	assert_string_equal(find(f, 0x11800, 1), "/c.so");
	assert_string_equal(find(f, 0x12800, 1), "/c.so");
	assert_string_equal(find(f, 0x20000, 1), "/d.so");
	assert_null(find(f, 0x10000, 1));
	load(f, one, 3, 2, 2);
	assert_int_equal(f->generation, 2);
	assert_string_equal(find(f, 0x11800, 0), "/a.so");
	assert_string_equal(find(f, 0x11800, 1), "/c.so");
	assert_string_equal(find(f, 0x11800, 2), "/a.so");
}

TEST(a_full_map_counts_what_it_lost)
{
	struct fixture *f = *state;
	struct object *many = calloc(5000, sizeof(*many));
	size_t i;

	assert_non_null(many);
	for (i = 0; i < 5000; i++)
		many[i] = (struct object){i ? "/x.so" : "", 0x10000 * (i + 1), 0x1000};
	load(f, many, 5000, 5000, 0);
	assert_int_equal(count_rows(f), 4096);
	assert_int_equal(f->region->header->record.modules_lost, 5000 - 4096);
	free(many);
}

/* The holder may be waiting for a lock that the caller's caller holds. */
TEST(a_map_that_stays_locked_is_given_up)
{
	const struct object with[] = {program, {"/a.so", 0x10000, 0x2000}};
	struct fixture *f = *state;

	objects = with;
	object_count = 2;
	loads = 2;
	(void)pthread_mutex_lock(&f->modules.lock);
	assert_false(cm_modules_refresh(&f->modules, &f->generation, &f->unloads));
	(void)pthread_mutex_unlock(&f->modules.lock);
	assert_true(cm_modules_refresh(&f->modules, &f->generation, &f->unloads));
}

/* Tools may add notes to a file that no segment contains: nothing is mapped there. */
TEST(notes_of_the_file_alone_are_left_alone)
{
	const struct object with[] = {program, {"/a.so", 0x10000, 0x2000}};
	struct fixture *f = *state;

	note = 0x1ff0;
	load(f, with, 2, 2, 0);
	assert_string_equal(find(f, 0x10000, 0), "/a.so");
	assert_int_equal(row_at(f, 1)->build_id_bytes, 0);
}
