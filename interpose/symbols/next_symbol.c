/* SPDX-License-Identifier: MIT */
#include "interpose/symbols/next_symbol.h"

#include <elf.h>
#include <stddef.h>

/* Weak, so that the loader does not become a NEEDED library. */
#pragma weak _r_debug

_Static_assert(sizeof(void *) == 8, "64-bit ELF with RELA relocations");

#define VERSYM_HIDDEN 0x8000u /* not the default version of its name */

cm_dlsym_fn *cm_next_dlsym;
cm_dlvsym_fn *cm_next_dlvsym;
static bool behind;

/* Relocations, which name the symbols that an object imports. */
struct relocations {
	const ElfW(Rela) * row;
	size_t bytes;
};

struct symbol_table {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	struct relocations calls; /* of the procedure linkage table */
	struct relocations data;
	ElfW(Xword) soname; /* offset into strings, 0: none */
};

bool cm_text_is_equal(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

bool cm_text_has_prefix(const char *text, const char *prefix)
{
	for (; *prefix && *text == *prefix; text++, prefix++)
		;
	return !*prefix;
}

bool cm_object_read(const struct dl_phdr_info *info, uintptr_t address,
		    struct cm_object *ret_object)
{
	bool contains = false;
	ElfW(Half) i;

	*ret_object = (struct cm_object){info->dlpi_addr, NULL, info->dlpi_name};
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_LOAD && address - start < header->p_memsz)
			contains = true;
		if (header->p_type == PT_DYNAMIC)
			ret_object->dynamic = (const ElfW(Dyn) *)start;
	}
	return contains;
}

/* glibc relocates the addresses in most objects' dynamic sections, but not in the vDSO's. */
static const void *dynamic_address(const struct cm_object *object, const ElfW(Dyn) * entry)
{
	uintptr_t address = entry->d_un.d_ptr;

	if (address < object->bias)
		address += object->bias;
	return (const void *)address;
}

static struct symbol_table read_dynamic(const struct cm_object *object)
{
	struct symbol_table table = {0};
	const ElfW(Dyn) * entry;

	for (entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_SYMTAB:
			table.symbols = dynamic_address(object, entry);
			break;
		case DT_STRTAB:
			table.strings = dynamic_address(object, entry);
			break;
		case DT_VERSYM:
			table.versions = dynamic_address(object, entry);
			break;
		case DT_GNU_HASH:
			table.gnu_hash = dynamic_address(object, entry);
			break;
		case DT_HASH:
			table.sysv_hash = dynamic_address(object, entry);
			break;
		case DT_JMPREL:
			table.calls.row = dynamic_address(object, entry);
			break;
		case DT_PLTRELSZ:
			table.calls.bytes = entry->d_un.d_val;
			break;
		case DT_RELA:
			table.data.row = dynamic_address(object, entry);
			break;
		case DT_RELASZ:
			table.data.bytes = entry->d_un.d_val;
			break;
		case DT_SONAME:
			table.soname = entry->d_un.d_val;
			break;
		default:
			break;
		}
	}
	return table;
}

static bool is_definition(const struct symbol_table *table, size_t index, const char *name)
{
	const ElfW(Sym) *symbol = &table->symbols[index];
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_NOTYPE))
		return false;
	if (table->versions && (table->versions[index] & VERSYM_HIDDEN))
		return false;
	return cm_text_is_equal(table->strings + symbol->st_name, name);
}

/* Header: buckets, first hashed symbol, words of the Bloom filter, its shift. */
static size_t find_gnu(const struct symbol_table *table, const char *name)
{
	const uint32_t *header = table->gnu_hash;
	const uint32_t *buckets = header + 4 + header[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = buckets + header[0] - header[1];
	uint32_t hash = 5381;
	const char *c;
	size_t i;

	for (c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	if (!header[0])
		return 0;
	for (i = buckets[hash % header[0]]; i; i++) {
		if ((chain[i] | 1) == (hash | 1) && is_definition(table, i, name))
			return i;
		if (chain[i] & 1)
			return 0;
	}
	return 0;
}

/* Header: buckets, symbols. Such objects are rare, so every symbol is compared. */
static size_t find_sysv(const struct symbol_table *table, const char *name)
{
	size_t i;

	for (i = 1; i < table->sysv_hash[1]; i++) {
		if (is_definition(table, i, name))
			return i;
	}
	return 0;
}

void *cm_object_symbol(const struct cm_object *object, const char *name)
{
	struct symbol_table table = read_dynamic(object);
	size_t index = 0;

	if (!table.symbols || !table.strings)
		return NULL;
	if (table.gnu_hash)
		index = find_gnu(&table, name);
	else if (table.sysv_hash)
		index = find_sysv(&table, name);
	return index ? (void *)(object->bias + table.symbols[index].st_value) : NULL;
}

/* The number of symbols: the last chain of the hash table ends with the last symbol. */
static size_t count_symbols(const struct symbol_table *table)
{
	const uint32_t *header = table->gnu_hash, *buckets, *chain;
	size_t i, last = 0;

	if (!header)
		return table->sysv_hash ? table->sysv_hash[1] : 0;
	buckets = header + 4 + header[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = buckets + header[0] - header[1];
	for (i = 0; i < header[0]; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (!last)
		return header[1];
	while (!(chain[last] & 1))
		last++;
	return last + 1;
}

/* The exported function that contains the address, or NULL. */
static const ElfW(Sym) * function_at(const struct symbol_table *table, uintptr_t offset)
{
	const size_t count = table->symbols && table->strings ? count_symbols(table) : 0;
	size_t i;

	for (i = 1; i < count; i++) {
		const ElfW(Sym) *symbol = &table->symbols[i];

		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
		    offset >= symbol->st_value && offset - symbol->st_value < symbol->st_size)
			return symbol;
	}
	return NULL;
}

const char *cm_object_function_at(const struct cm_object *object, uintptr_t address)
{
	const struct symbol_table table = read_dynamic(object);
	const ElfW(Sym) *symbol = function_at(&table, address - object->bias);

	return symbol ? table.strings + symbol->st_name : NULL;
}

uintptr_t cm_object_function_bytes(const struct cm_object *object, uintptr_t address)
{
	const struct symbol_table table = read_dynamic(object);
	const ElfW(Sym) *symbol = function_at(&table, address - object->bias);

	return symbol && symbol->st_value == address - object->bias ? symbol->st_size : 0;
}

static bool imports_any(const struct cm_object *object, const struct symbol_table *table,
			const struct relocations *relocations, cm_import_fn *is_wanted,
			const void *arg)
{
	const size_t rows = relocations->row ? relocations->bytes / sizeof(*relocations->row) : 0;
	size_t i;

	for (i = 0; i < rows; i++) {
		const ElfW(Rela) *row = &relocations->row[i];
		const ElfW(Sym) *symbol = &table->symbols[ELF64_R_SYM(row->r_info)];

		if (symbol->st_name && symbol->st_shndx == SHN_UNDEF &&
		    is_wanted(table->strings + symbol->st_name,
			      (void *const *)(object->bias + row->r_offset), arg))
			return true;
	}
	return false;
}

bool cm_object_imports(const struct cm_object *object, cm_import_fn *is_wanted, const void *arg)
{
	struct symbol_table table = read_dynamic(object);

	return table.symbols && table.strings &&
	       (imports_any(object, &table, &table.calls, is_wanted, arg) ||
		imports_any(object, &table, &table.data, is_wanted, arg));
}

const char *cm_object_soname(const struct cm_object *object)
{
	struct symbol_table table = read_dynamic(object);

	return table.strings && table.soname ? table.strings + table.soname : "";
}

/* Our own entry in the loader's list, from `first` on, or NULL. */
static const struct link_map *find_own(const struct link_map *first)
{
	const struct link_map *own = first;

	while (own && own->l_ld != _DYNAMIC)
		own = own->l_next;
	return own;
}

/*
 * Searches from our own object onward and then from the start of the list, for the case that we
 * were not preloaded. Objects loaded with the program come first in the list and stay, so names of
 * the C library need no lock. _DYNAMIC is each object's own symbol, by which we find our entry.
 */
void *cm_next_symbol(const char *name)
{
	const struct link_map *first = &_r_debug ? _r_debug.r_map : NULL;
	const struct link_map *own = find_own(first);
	const struct link_map *map;

	if (!own)
		return NULL;
	for (map = own->l_next ? own->l_next : first; map != own;
	     map = map->l_next ? map->l_next : first) {
		struct cm_object object = {map->l_addr, map->l_ld, map->l_name};
		void *symbol = cm_object_symbol(&object, name);

		if (symbol)
			return symbol;
	}
	return NULL;
}

/* A program may define one of these names; only this library defines both. */
bool cm_object_is_copy(const struct cm_object *object)
{
	return cm_object_symbol(object, "cudamem_memory_stats") &&
	       cm_object_symbol(object, "dlsym");
}

static bool copy_is_before(void)
{
	const struct link_map *first = &_r_debug ? _r_debug.r_map : NULL;
	const struct link_map *own = find_own(first);
	const struct link_map *map;

	for (map = own ? first : NULL; map != own; map = map->l_next) {
		struct cm_object object = {map->l_addr, map->l_ld, map->l_name};

		if (cm_object_is_copy(&object))
			return true;
	}
	return false;
}

static void *find_nothing(void)
{
	return NULL;
}

/* Racing threads store the same addresses. */
static void find_lookups(void)
{
	void *next_dlsym = cm_next_symbol("dlsym");
	void *next_dlvsym = cm_next_symbol("dlvsym");

	if (!next_dlsym)
		next_dlsym = (void *)find_nothing;
	if (!next_dlvsym)
		next_dlvsym = (void *)find_nothing;
	__atomic_store_n(&behind, copy_is_before(), __ATOMIC_RELAXED);
	__atomic_store_n(&cm_next_dlvsym, (cm_dlvsym_fn *)next_dlvsym, __ATOMIC_RELAXED);
	__atomic_store_n(&cm_next_dlsym, (cm_dlsym_fn *)next_dlsym, __ATOMIC_RELEASE);
}

void cm_next_find_lookups(void)
{
	if (!__atomic_load_n(&cm_next_dlsym, __ATOMIC_ACQUIRE))
		find_lookups();
}

bool cm_next_is_behind_copy(void)
{
	return __atomic_load_n(&behind, __ATOMIC_RELAXED);
}
