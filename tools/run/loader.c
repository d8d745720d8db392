/* SPDX-License-Identifier: MIT */
#include "tools/run/loader.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPTS_MAX  5   /* the kernel follows four; env(1) is one more */
#define LINE_BYTES   256 /* of a script, that the kernel reads */
#define HEADERS_MAX  64  /* programs have about a dozen */
#define DEFAULT_PATH "/bin:/usr/bin"

static const struct {
	const char *why, *remedy;
} causes[CM_LOADER_COUNT] = {
#define CM_LOADER(ID, why, remedy) [CM_LOADER_##ID] = {why, remedy},
#include "tools/run/loader.def"
};

const char *cm_loader_why(enum cm_loader loader)
{
	return causes[loader].why;
}

const char *cm_loader_remedy(enum cm_loader loader)
{
	return causes[loader].remedy;
}

static bool is_program(const char *path, struct stat *ret_stat)
{
	return !stat(path, ret_stat) && S_ISREG(ret_stat->st_mode) && !access(path, X_OK);
}

/* As execvp(3) does. */
static bool find_program(const char *name, char path[PATH_MAX], struct stat *ret_stat)
{
	const char *folders = getenv("PATH");
	size_t length;

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX &&
		       is_program(path, ret_stat);
	for (folders = folders ? folders : DEFAULT_PATH; *name; folders += length + 1) {
		length = strcspn(folders, ":");
		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folders, length ? "/" : "",
			     name) < PATH_MAX &&
		    is_program(path, ret_stat))
			return true;
		if (!folders[length])
			break;
	}
	return false;
}

/* The loader ignores paths if the program has more rights than the user who starts it. */
static bool is_secure(const char *path, const struct stat *st)
{
	struct statvfs system;

	if (!statvfs(path, &system) && system.f_flag & ST_NOSUID)
		return false;
	return (st->st_mode & S_ISUID && st->st_uid != getuid()) ||
	       ((st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		st->st_gid != getgid()) ||
	       (geteuid() && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* The program that a script names, which is given in `line`; NULL: it is none. */
static const char *find_interpreter(char line[LINE_BYTES + 1])
{
	char *rest = line + 2, *word, *argument;

	if (strncmp(line, "#!", 2))
		return NULL;
	rest[strcspn(rest, "\n")] = '\0';
	word = strtok_r(rest, " \t", &rest);
	argument = word ? strtok_r(NULL, " \t", &rest) : NULL;
	if (!argument || strcmp(basename(word), "env") != 0)
		return word;
	return strcmp(argument, "-S") ? argument : strtok_r(NULL, " \t", &rest);
}

static bool is_elf(const Elf64_Ehdr *header)
{
	return !memcmp(header->e_ident, ELFMAG, SELFMAG);
}

static bool read_header(const char *path, Elf64_Ehdr *ret_header)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, ret_header, sizeof(*ret_header));
	(void)close(fd);
	return n == (ssize_t)sizeof(*ret_header) && is_elf(ret_header);
}

/* The loader that a program names; "": none. False: its headers cannot be read. */
static bool read_loader(int fd, const Elf64_Ehdr *header, char loader[PATH_MAX])
{
	Elf64_Phdr part;
	unsigned i;
	ssize_t n;

	*loader = '\0';
	if (header->e_phentsize != sizeof(part) || header->e_phnum > HEADERS_MAX)
		return false;
	for (i = 0; i < header->e_phnum; i++) {
		if (pread(fd, &part, sizeof(part), (off_t)(header->e_phoff + i * sizeof(part))) !=
		    (ssize_t)sizeof(part))
			return false;
		if (part.p_type != PT_INTERP)
			continue;
		n = part.p_filesz < PATH_MAX
			    ? pread(fd, loader, part.p_filesz, (off_t)part.p_offset)
			    : -1;
		if (n <= 0)
			return false;
		loader[n - 1] = '\0';
		return true;
	}
	return true;
}

/* A loader that is started as a program names no loader itself. It preloads the library. */
static bool is_loader(const char *path)
{
	const char *name = basename(path);

	return !strncmp(name, "ld-", 3) || !strncmp(name, "ld.so", 5);
}

static enum cm_loader judge(int fd, const char *path, const Elf64_Ehdr *header, const char *library)
{
	Elf64_Ehdr own;
	char loader[PATH_MAX];

	if (!read_header(library, &own))
		return CM_LOADER_PRELOADS;
	if (header->e_ident[EI_CLASS] != own.e_ident[EI_CLASS] ||
	    header->e_ident[EI_DATA] != own.e_ident[EI_DATA] || header->e_machine != own.e_machine)
		return CM_LOADER_MACHINE;
	if (!read_loader(fd, header, loader))
		return CM_LOADER_PRELOADS;
	if (strstr(*loader ? loader : path, "/ld-musl"))
		return CM_LOADER_MUSL;
	return *loader || is_loader(path) ? CM_LOADER_PRELOADS : CM_LOADER_NONE;
}

/* Looks at one file. A script: `line` is its first line, and nothing is known yet. */
static enum cm_loader look_at(const char *path, const char *library, char line[LINE_BYTES + 1])
{
	enum cm_loader found = CM_LOADER_PRELOADS;
	Elf64_Ehdr header;
	ssize_t n;
	int fd;

	*line = '\0';
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return found;
	n = pread(fd, line, LINE_BYTES, 0);
	line[n > 0 ? n : 0] = '\0';
	if (n >= (ssize_t)sizeof(header)) {
		memcpy(&header, line, sizeof(header));
		if (is_elf(&header))
			found = judge(fd, path, &header, library);
	}
	(void)close(fd);
	return found;
}

enum cm_loader cm_loader_find(const char *command, const char *library, char ret_path[PATH_MAX])
{
	const char *name = command;
	char line[LINE_BYTES + 1];
	enum cm_loader found;
	struct stat st;
	int scripts;

	for (scripts = 0; scripts < SCRIPTS_MAX; scripts++) {
		if (!find_program(name, ret_path, &st)) {
			*ret_path = '\0';
			return CM_LOADER_PRELOADS;
		}
		found = look_at(ret_path, library, line);
		name = find_interpreter(line);
		/* The rights of a script are those of the program that reads it. */
		if (!name)
			return found == CM_LOADER_PRELOADS && is_secure(ret_path, &st)
				       ? CM_LOADER_SECURE
				       : found;
	}
	return CM_LOADER_PRELOADS;
}

/* Commands whose programs do not get this environment. */
static const struct {
	const char *name, *argument, *why; /* `argument` NULL: whatever its arguments are */
} wrappers[] = {
	{"sudo", NULL, "removes LD_PRELOAD from the environment"},
	{"su", "-", "removes LD_PRELOAD from the environment"},
	{"doas", NULL, "removes LD_PRELOAD from the environment"},
	{"env", "-i", "removes LD_PRELOAD from the environment"},
	{"ssh", NULL, "starts the program on another machine"},
	{"docker", NULL, "starts the program in a container, where the library is not"},
	{"podman", NULL, "starts the program in a container, where the library is not"},
	{"apptainer", NULL, "starts the program in a container, where the library is not"},
	{"singularity", NULL, "starts the program in a container, where the library is not"},
	{"kubectl", NULL, "starts the program in a container, where the library is not"},
};

const char *cm_loader_wraps(char *const *command)
{
	const char *name = basename(command[0]);
	const char *argument = command[1] ? command[1] : "";
	size_t i;

	for (i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (!strcmp(name, wrappers[i].name) &&
		    (!wrappers[i].argument || !strcmp(argument, wrappers[i].argument)))
			return wrappers[i].why;
	return NULL;
}

bool cm_loader_is_glibc(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char loader[PATH_MAX] = "";
	Elf64_Ehdr header;
	bool read;

	if (fd < 0)
		return false;
	read = pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       is_elf(&header) && header.e_ident[EI_CLASS] == ELFCLASS64 &&
	       read_loader(fd, &header, loader);
	(void)close(fd);
	return read && (strstr(loader, "/ld-linux") || strstr(loader, "/ld64"));
}
