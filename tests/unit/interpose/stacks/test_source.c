/* SPDX-License-Identifier: MIT */
/* Functions and lines of this program's own file, also if the file is another or damaged. */
#include "interpose/stacks/source.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/source_line.h"

#define DAMAGES 300
#define CUTS    60

static struct dl_phdr_info own;

static int keep_first(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	own = *info;
	return 1;
}

static uint64_t linked(struct source_line line)
{
	return (uint64_t)(uintptr_t)line.function - own.dlpi_addr;
}

CM_TEST(a_function_and_its_line_are_found)
{
	const struct source_line lines[] = {source_line_2(), source_line_3(), source_line_4(),
					    source_line_5()};
	struct cm_source source;
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		source = (struct cm_source){.line = 0};
		cm_source_find(&own, linked(lines[i]), &source);
		assert_string_equal(source.function, "hidden_function");
		assert_string_equal(source.file, "source_line.c");
		/* Without optimisation a function begins with its heading. */
		assert_in_range(source.line, lines[i].line - 2, lines[i].line);
	}
}

CM_TEST(an_address_in_no_function_has_no_source)
{
	struct cm_source source = {.function = "exported"};

	cm_source_find(&own, UINT64_C(1) << 40, &source);
	assert_string_equal(source.function, "exported");
	assert_string_equal(source.file, "");
}

CM_TEST(another_file_in_its_place_is_not_read)
{
	struct dl_phdr_info info = own;
	struct cm_source source = {.function = ""};

	info.dlpi_name = "/bin/sh";
	cm_source_find(&info, linked(source_line_5()), &source);
	assert_string_equal(source.function, "");
	info.dlpi_name = "/nonexistent";
	cm_source_find(&info, linked(source_line_5()), &source);
	assert_string_equal(source.function, "");
	info.dlpi_name = "/";
	cm_source_find(&info, linked(source_line_5()), &source);
	assert_string_equal(source.function, "");
}

static unsigned char *read_own(size_t *ret_bytes)
{
	FILE *file = fopen("/proc/self/exe", "rb");
	unsigned char *data;
	long bytes;

	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	bytes = ftell(file);
	assert_true(bytes > 4096);
	data = malloc((size_t)bytes);
	assert_non_null(data);
	rewind(file);
	assert_int_equal(fread(data, 1, (size_t)bytes, file), bytes);
	(void)fclose(file);
	*ret_bytes = (size_t)bytes;
	return data;
}

/* Looks the function up in a copy of the program. */
static void look_up_in(const unsigned char *data, size_t bytes)
{
	char path[] = "/tmp/cudamem-source-XXXXXX";
	struct cm_source source = {.function = ""};
	struct dl_phdr_info info = own;
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	(void)close(fd);
	info.dlpi_name = path;
	cm_source_find(&info, linked(source_line_5()), &source);
	assert_true(memchr(source.function, '\0', sizeof(source.function)) != NULL);
	assert_true(memchr(source.file, '\0', sizeof(source.file)) != NULL);
	(void)unlink(path);
}

CM_TEST(a_damaged_file_does_no_harm)
{
	uint64_t random = 88172645463325252u;
	unsigned char *data, before[32];
	size_t bytes, i, k, at;

	data = read_own(&bytes);
	for (i = 0; i < DAMAGES; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		/* Half of them in the table of sections, at the end. */
		at = random % (i % 2 ? bytes - sizeof(before) : 4096);
		at = i % 2 ? at : bytes - sizeof(before) - at;
		memcpy(before, data + at, sizeof(before));
		for (k = 0; k < sizeof(before); k++)
			data[at + k] = (unsigned char)(random >> k);
		look_up_in(data, bytes);
		memcpy(data + at, before, sizeof(before));
	}
	for (i = 0; i < CUTS; i++)
		look_up_in(data, bytes * i / CUTS);
	free(data);
}

static int find_own(void **state)
{
	(void)state;
	return dl_iterate_phdr(keep_first, NULL) == 1 ? 0 : -1;
}

int main(void)
{
	return cm_run_tests(find_own, NULL);
}
