/* SPDX-License-Identifier: MIT */
#include "tools/doctor/elf_needs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX   (UINT64_C(64) << 20) /* the library has some 200 KiB */
#define PREFIX     "GLIBC_"
#define ENTRIES    4096 /* of any table that is looked through */
#define NO_ADDRESS UINT64_MAX

struct object {
	const uint8_t *bytes;
	uint64_t length;
	Elf64_Ehdr header;
};

/* The values of the dynamic section that matter; NO_ADDRESS: not there. */
struct dynamic {
	uint64_t strings, versions, version_count;
};

static bool copy(const struct object *object, uint64_t offset, void *to, size_t bytes)
{
	if (offset > object->length || bytes > object->length - offset)
		return false;
	memcpy(to, object->bytes + offset, bytes);
	return true;
}

static bool read_part(const struct object *object, unsigned i, Elf64_Phdr *ret_part)
{
	return i < object->header.e_phnum &&
	       copy(object, object->header.e_phoff + (uint64_t)i * sizeof(*ret_part), ret_part,
		    sizeof(*ret_part));
}

/* The place in the file of the byte at an address. False: it is not in the file. */
static bool to_offset(const struct object *object, uint64_t address, uint64_t *ret_offset)
{
	Elf64_Phdr part;
	unsigned i;

	for (i = 0; read_part(object, i, &part); i++) {
		if (part.p_type != PT_LOAD || address < part.p_vaddr ||
		    address - part.p_vaddr >= part.p_filesz)
			continue;
		*ret_offset = part.p_offset + (address - part.p_vaddr);
		return true;
	}
	return false;
}

static bool read_dynamic(const struct object *object, struct dynamic *ret_dynamic)
{
	struct dynamic found = {NO_ADDRESS, NO_ADDRESS, 0};
	Elf64_Phdr part = {.p_type = PT_NULL};
	Elf64_Dyn entry;
	unsigned i, n;

	for (i = 0; part.p_type != PT_DYNAMIC; i++)
		if (!read_part(object, i, &part))
			return false;
	for (n = 0; n < ENTRIES && (n + 1) * sizeof(entry) <= part.p_filesz; n++) {
		if (!copy(object, part.p_offset + n * sizeof(entry), &entry, sizeof(entry)))
			return false;
		if (entry.d_tag == DT_STRTAB)
			found.strings = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_VERNEED)
			found.versions = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_VERNEEDNUM)
			found.version_count = entry.d_un.d_val;
	}
	*ret_dynamic = found;
	return true;
}

/* A version of glibc in the string table, without its prefix. */
static bool read_version(const struct object *object, uint64_t offset, char to[CM_GLIBC_BYTES])
{
	char text[sizeof(PREFIX) + CM_GLIBC_BYTES] = {0};
	const size_t prefix = strlen(PREFIX);
	uint64_t n = sizeof(text) - 1;

	if (offset >= object->length)
		return false;
	if (n > object->length - offset)
		n = object->length - offset;
	memcpy(text, object->bytes + offset, n);
	/* GLIBC_PRIVATE has no number. */
	if (strncmp(text, PREFIX, prefix) != 0 || text[prefix] < '0' || text[prefix] > '9')
		return false;
	(void)snprintf(to, CM_GLIBC_BYTES, "%.*s", CM_GLIBC_BYTES - 1, text + prefix);
	return true;
}

int cm_glibc_compare(const char *a, const char *b)
{
	unsigned long x, y;
	char *end_a, *end_b;

	for (;;) {
		x = strtoul(a, &end_a, 10);
		y = strtoul(b, &end_b, 10);
		if (x != y)
			return x < y ? -1 : 1;
		if (*end_a != '.' || *end_b != '.')
			return (*end_a == '.') - (*end_b == '.');
		a = end_a + 1;
		b = end_b + 1;
	}
}

/* The versions that the object needs of one library. */
static void read_needs(const struct object *object, uint64_t strings, uint64_t at,
		       const Elf64_Verneed *need, char highest[CM_GLIBC_BYTES])
{
	char version[CM_GLIBC_BYTES];
	Elf64_Vernaux aux;
	unsigned i;

	at += need->vn_aux;
	for (i = 0; i < need->vn_cnt && copy(object, at, &aux, sizeof(aux)); i++) {
		if (read_version(object, strings + aux.vna_name, version) &&
		    cm_glibc_compare(version, highest) > 0)
			memcpy(highest, version, sizeof(version));
		if (!aux.vna_next)
			return;
		at += aux.vna_next;
	}
}

static int find_highest(const struct object *object, char highest[CM_GLIBC_BYTES])
{
	struct dynamic dynamic;
	uint64_t strings, at, i;
	Elf64_Verneed need;

	*highest = '\0';
	if (!read_dynamic(object, &dynamic))
		return -ENOEXEC;
	if (dynamic.versions == NO_ADDRESS)
		return 0;
	if (!to_offset(object, dynamic.strings, &strings) ||
	    !to_offset(object, dynamic.versions, &at))
		return -ENOEXEC;
	for (i = 0; i < dynamic.version_count && i < ENTRIES; i++) {
		if (!copy(object, at, &need, sizeof(need)))
			return -ENOEXEC;
		read_needs(object, strings, at, &need, highest);
		at += need.vn_next;
	}
	return 0;
}

static int read_file(int fd, struct object *object)
{
	uint8_t *bytes;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > FILE_MAX)
		return -ENOEXEC;
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes)
		return -ENOMEM;
	n = pread(fd, bytes, (size_t)st.st_size, 0);
	object->bytes = bytes;
	object->length = n > 0 ? (uint64_t)n : 0;
	return n < 0 ? -errno : 0;
}

int cm_elf_needs_glibc(const char *path, char ret_version[CM_GLIBC_BYTES])
{
	struct object object = {0};
	int fd, err;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	err = read_file(fd, &object);
	(void)close(fd);
	if (!err && (!copy(&object, 0, &object.header, sizeof(object.header)) ||
		     memcmp(object.header.e_ident, ELFMAG, SELFMAG) != 0 ||
		     object.header.e_ident[EI_CLASS] != ELFCLASS64))
		err = -ENOEXEC;
	if (!err)
		err = find_highest(&object, ret_version);
	free((void *)(uintptr_t)object.bytes);
	return err;
}
