/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/object_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/modules.h"

#define BUFFER_BYTES 32768u
#define SECTIONS_MAX 16384u /* objects with a section a function have some thousand */
#define NAME_BYTES   20u    /* of a section that is looked for */

static ssize_t read_at(const struct cm_object_file *file, void *to, size_t bytes, uint64_t at)
{
	ssize_t n;

	do
		n = pread(file->fd, to, bytes, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n;
}

/* Makes the bytes at the cursor those of the buffer. */
static bool fill_buffer(struct cm_object_cursor *cursor)
{
	struct cm_object_file *file = cursor->file;
	ssize_t n;

	if (cursor->ended || cursor->at >= cursor->end) {
		cursor->ended = true;
		return false;
	}
	if (cursor->at - file->buffered < file->buffered_bytes)
		return true;
	n = read_at(file, file->buffer, BUFFER_BYTES, cursor->at);
	file->buffered = cursor->at;
	file->buffered_bytes = n > 0 ? (size_t)n : 0;
	cursor->ended = n <= 0;
	return n > 0;
}

void cm_object_read_bytes(struct cm_object_cursor *cursor, void *to, size_t bytes)
{
	const struct cm_object_file *file = cursor->file;
	unsigned char *out = to;
	uint64_t have;
	size_t n;

	memset(to, 0, bytes);
	while (bytes && fill_buffer(cursor)) {
		have = file->buffered + file->buffered_bytes - cursor->at;
		if (have > cursor->end - cursor->at)
			have = cursor->end - cursor->at;
		n = have < bytes ? (size_t)have : bytes;
		memcpy(out, file->buffer + (cursor->at - file->buffered), n);
		out += n;
		cursor->at += n;
		bytes -= n;
	}
}

uint8_t cm_object_read_u8(struct cm_object_cursor *cursor)
{
	const struct cm_object_file *file = cursor->file;

	if (!fill_buffer(cursor))
		return 0;
	return file->buffer[cursor->at++ - file->buffered];
}

uint64_t cm_object_read_number(struct cm_object_cursor *cursor, size_t bytes)
{
	uint64_t number = 0;

	/* Both supported machines are little-endian. */
	cm_object_read_bytes(cursor, &number, bytes);
	return number;
}

static uint64_t read_leb(struct cm_object_cursor *cursor, bool is_signed)
{
	uint64_t number = 0;
	unsigned shift;
	uint8_t byte = 0x80;

	for (shift = 0; byte & 0x80; shift += 7) {
		byte = cm_object_read_u8(cursor);
		if (shift < 64)
			number |= (uint64_t)(byte & 0x7f) << shift;
	}
	if (is_signed && (byte & 0x40) && shift < 64)
		number |= ~UINT64_C(0) << shift;
	return number;
}

uint64_t cm_object_read_uleb(struct cm_object_cursor *cursor)
{
	return read_leb(cursor, false);
}

int64_t cm_object_read_sleb(struct cm_object_cursor *cursor)
{
	return (int64_t)read_leb(cursor, true);
}

void cm_object_skip(struct cm_object_cursor *cursor, uint64_t bytes)
{
	if (cursor->ended || bytes > cursor->end - cursor->at)
		cursor->ended = true;
	else
		cursor->at += bytes;
}

uint64_t cm_object_read_text(struct cm_object_cursor *cursor, char *to, size_t bytes)
{
	uint64_t length = 0;
	uint8_t c;

	while ((c = cm_object_read_u8(cursor))) {
		if (to && length + 1 < bytes)
			to[length] = (char)c;
		length++;
	}
	if (to)
		to[length < bytes ? length : bytes - 1] = '\0';
	return length;
}

/* The part of the file that begins here, as far as the file goes. */
static struct cm_object_part part(const struct cm_object_file *file, uint64_t at, uint64_t bytes)
{
	const struct cm_object_part none = {0, 0};

	if (at >= file->bytes)
		return none;
	if (bytes > file->bytes - at)
		bytes = file->bytes - at;
	return (struct cm_object_part){at, at + bytes};
}

static bool has(struct cm_object_file *file, uint64_t at, const void *memory, size_t bytes)
{
	struct cm_object_cursor cursor = cm_object_cursor(file, part(file, at, bytes));
	const unsigned char *byte = memory;

	for (; bytes && !cursor.ended; bytes--)
		if (cm_object_read_u8(&cursor) != *byte++)
			return false;
	return !bytes && !cursor.ended;
}

/* An update replaces files: the headers and the notes, of which one is the build-id, tell. */
static bool is_same(struct cm_object_file *file, const struct dl_phdr_info *info,
		    const ElfW(Ehdr) * header)
{
	ElfW(Half) i;

	if (header->e_phnum != info->dlpi_phnum || header->e_phentsize != sizeof(ElfW(Phdr)) ||
	    !has(file, header->e_phoff, info->dlpi_phdr, info->dlpi_phnum * sizeof(ElfW(Phdr))))
		return false;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *note = &info->dlpi_phdr[i];

		if (note->p_type == PT_NOTE && cm_module_is_mapped(info, note) &&
		    !has(file, note->p_offset,
			 (const void *)(uintptr_t)(info->dlpi_addr + note->p_vaddr),
			 note->p_filesz))
			return false;
	}
	return true;
}

static bool read_section(struct cm_object_file *file, const ElfW(Ehdr) * header, uint64_t number,
			 ElfW(Shdr) * ret_section)
{
	struct cm_object_cursor cursor = {file, header->e_shoff + number * sizeof(*ret_section),
					  file->bytes, false};

	cm_object_read_bytes(&cursor, ret_section, sizeof(*ret_section));
	return number < header->e_shnum && !cursor.ended;
}

static struct cm_object_part *part_of_section(struct cm_object_file *file,
					      const struct cm_object_part *names,
					      const ElfW(Shdr) * section)
{
	struct cm_object_cursor cursor = cm_object_cursor(file, *names);
	char name[NAME_BYTES];

	cm_object_skip(&cursor, section->sh_name);
	cm_object_read_text(&cursor, name, sizeof(name));
	if (!strcmp(name, ".debug_line"))
		return &file->lines;
	if (!strcmp(name, ".debug_line_str"))
		return &file->line_texts;
	return !strcmp(name, ".debug_str") ? &file->texts : NULL;
}

static void find_sections(struct cm_object_file *file, const ElfW(Ehdr) * header)
{
	const uint64_t count = header->e_shnum < SECTIONS_MAX ? header->e_shnum : SECTIONS_MAX;
	struct cm_object_part names, *found;
	ElfW(Shdr) section, link;
	uint64_t i;

	if (header->e_shentsize != sizeof(section) ||
	    !read_section(file, header, header->e_shstrndx, &section))
		return;
	names = part(file, section.sh_offset, section.sh_size);
	for (i = 0; i < count && read_section(file, header, i, &section); i++) {
		if (section.sh_type == SHT_SYMTAB &&
		    read_section(file, header, section.sh_link, &link)) {
			file->symbols = part(file, section.sh_offset, section.sh_size);
			file->symbol_names = part(file, link.sh_offset, link.sh_size);
		}
		if (section.sh_type != SHT_PROGBITS ||
		    (section.sh_flags & (SHF_ALLOC | SHF_COMPRESSED)))
			continue;
		found = part_of_section(file, &names, &section);
		if (found)
			*found = part(file, section.sh_offset, section.sh_size);
	}
}

static int open_file(const char *path)
{
	int fd;

	do
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	while (fd < 0 && errno == EINTR);
	return fd;
}

bool cm_object_file_open(const struct dl_phdr_info *info, struct cm_object_file *file)
{
	const char *path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
	struct cm_object_cursor cursor;
	struct stat status;
	ElfW(Ehdr) header;

	*file = (struct cm_object_file){.fd = open_file(path), .buffer = MAP_FAILED};
	if (file->fd < 0)
		return false;
	file->buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	if (file->buffer == MAP_FAILED || fstat(file->fd, &status) || !S_ISREG(status.st_mode))
		goto err_close;
	file->bytes = (uint64_t)status.st_size;
	cursor = cm_object_cursor(file, (struct cm_object_part){0, sizeof(header)});
	cm_object_read_bytes(&cursor, &header, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || !is_same(file, info, &header))
		goto err_close;
	find_sections(file, &header);
	return true;
err_close:
	cm_object_file_close(file);
	return false;
}

void cm_object_file_close(struct cm_object_file *file)
{
	if (file->buffer != MAP_FAILED)
		(void)munmap(file->buffer, BUFFER_BYTES);
	(void)close(file->fd);
}
