/* SPDX-License-Identifier: MIT */
#include "tools/run/loader.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

#define SELF "/proc/self/exe"

/* The folder of made-up programs, which is also the PATH. */
static char folder[] = "loader-XXXXXX";
static char path[80];

static void write_program(const char *name, const void *bytes, size_t count, mode_t mode)
{
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	(void)unlink(path);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr part[2];
	char loader[64];
};

/* A program of this machine; `loader` NULL: a static one. */
static struct image make_image(const char *loader)
{
	struct image image = {.loader = ""};
	FILE *self = fopen(SELF, "r");

	assert_non_null(self);
	assert_int_equal(fread(&image.header, sizeof(image.header), 1, self), 1);
	(void)fclose(self);
	image.header.e_phoff = offsetof(struct image, part);
	image.header.e_phnum = 2;
	image.part[0].p_type = PT_LOAD;
	image.part[1].p_type = loader ? PT_INTERP : PT_NOTE;
	image.part[1].p_offset = offsetof(struct image, loader);
	image.part[1].p_filesz = loader ? strlen(loader) + 1 : 0;
	(void)snprintf(image.loader, sizeof(image.loader), "%s", loader ? loader : "");
	return image;
}

#define GLIBC "/lib64/ld-linux-x86-64.so.2"
#define MUSL  "/lib/ld-musl-x86_64.so.1"

static void write_image(const char *name, const struct image *image)
{
	write_program(name, image, sizeof(*image), 0755);
}

static enum cm_loader find(const char *command)
{
	char found[PATH_MAX];

	return cm_loader_find(command, SELF, found);
}

CM_TEST(a_program_is_judged_by_the_loader_that_it_names)
{
	static const struct {
		const char *name;
		const char *loader;
		enum cm_loader found;
	} cases[] = {
		{"glibc", GLIBC, CM_LOADER_PRELOADS},
		{"musl", MUSL, CM_LOADER_MUSL},
		{"static", NULL, CM_LOADER_NONE},
		{"ld-linux-x86-64.so.2", NULL, CM_LOADER_PRELOADS},
		{"ld-musl-x86_64.so.1", NULL, CM_LOADER_MUSL},
	};
	struct image image;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		image = make_image(cases[i].loader);
		write_image(cases[i].name, &image);
		assert_int_equal(find(path), cases[i].found);
		assert_int_equal(find(cases[i].name), cases[i].found);
	}
}

CM_TEST(another_machine_is_seen_by_number_class_and_order)
{
	struct image image = make_image(GLIBC);

	image.header.e_machine = EM_S390;
	write_image("s390", &image);
	assert_int_equal(find(path), CM_LOADER_MACHINE);
	image = make_image(MUSL);
	image.header.e_ident[EI_CLASS] = ELFCLASS32;
	write_image("small", &image);
	assert_int_equal(find(path), CM_LOADER_MACHINE);
	image = make_image(GLIBC);
	image.header.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
	write_image("swapped", &image);
	assert_int_equal(find(path), CM_LOADER_MACHINE);
}

CM_TEST(scripts_lead_to_their_program)
{
	static const struct {
		const char *line;
		enum cm_loader found;
	} cases[] = {
		{"#!%s/musl\n", CM_LOADER_MUSL},
		{"#! %s/static -x\n", CM_LOADER_NONE},
		{"#!/usr/bin/env musl\n", CM_LOADER_MUSL},
		{"#!/usr/bin/env -S musl -x\n", CM_LOADER_MUSL},
		{"#!%s/glibc", CM_LOADER_PRELOADS},
		{"#!\n", CM_LOADER_PRELOADS},
		{"#!/usr/bin/env\n", CM_LOADER_PRELOADS},
		{"#!/usr/bin/env -S\n", CM_LOADER_PRELOADS},
		{"#!%s/script\n", CM_LOADER_PRELOADS}, /* itself */
		{"#", CM_LOADER_PRELOADS},
		{"", CM_LOADER_PRELOADS},
	};
	struct image image = make_image(MUSL);
	char line[120];
	size_t i;

	write_image("musl", &image);
	image = make_image(NULL);
	write_image("static", &image);
	image = make_image(GLIBC);
	write_image("glibc", &image);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *mark = strstr(cases[i].line, "%s");

		(void)snprintf(line, sizeof(line), "%.*s%s%s",
			       mark ? (int)(mark - cases[i].line) : 0, cases[i].line,
			       mark ? folder : "", mark ? mark + 2 : cases[i].line);
		write_program("script", line, strlen(line), 0755);
		assert_int_equal(find(path), cases[i].found);
	}
}

/* Only root can make a file that has another's rights. */
CM_TEST(more_rights_than_the_callers_are_seen)
{
	struct image image = make_image(GLIBC);

	write_image("login", &image);
	assert_int_equal(chmod(path, 04755), 0);
	assert_int_equal(find(path), CM_LOADER_PRELOADS); /* one's own */
	if (geteuid())
		return;
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(chmod(path, 04755), 0);
	assert_int_equal(find(path), CM_LOADER_SECURE);
	assert_int_equal(chmod(path, 02755), 0);
	assert_int_equal(find(path), CM_LOADER_SECURE);
	assert_int_equal(chmod(path, 02745), 0);
	assert_int_equal(find(path), CM_LOADER_PRELOADS);
}

/* Of what cannot be told the best is hoped. */
CM_TEST(a_damaged_or_missing_program_is_none_of_ours)
{
	struct image image = make_image(MUSL);
	size_t length;

	assert_int_equal(find("no/such/program"), CM_LOADER_PRELOADS);
	assert_int_equal(find("no-such-program"), CM_LOADER_PRELOADS);
	assert_int_equal(find(""), CM_LOADER_PRELOADS);
	assert_int_equal(find(folder), CM_LOADER_PRELOADS);
	for (length = 0; length < offsetof(struct image, loader); length++) {
		write_program("cut", &image, length, 0755);
		assert_int_equal(find(path), CM_LOADER_PRELOADS);
	}
	write_program("closed", &image, sizeof(image), 0644);
	assert_int_equal(find(path), CM_LOADER_PRELOADS);
	image.part[1].p_filesz = UINT64_MAX;
	write_image("wild", &image);
	assert_int_equal(find(path), CM_LOADER_PRELOADS);
	image = make_image(MUSL);
	image.header.e_phoff = UINT64_MAX - 8;
	write_image("wild", &image);
	assert_int_equal(find(path), CM_LOADER_PRELOADS);
	image = make_image(MUSL);
	image.header.e_phnum = UINT16_MAX;
	write_image("wild", &image);
	assert_int_equal(find(path), CM_LOADER_PRELOADS);
}

static int setup(void **state)
{
	char variable[120];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(variable, sizeof(variable), "/no/such/folder:%s", folder);
	return setenv("PATH", variable, 1);
}

static int teardown(void **state)
{
	char command[80];

	(void)state;
	(void)setenv("PATH", "/bin:/usr/bin", 1);
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	return cm_run_tests(setup, teardown);
}
