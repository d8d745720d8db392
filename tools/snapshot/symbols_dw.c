/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/symbols_dw.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if CM_HAVE_IBERTY
#include <libiberty/demangle.h>
#endif

#include "stats/regular_file.h"

struct cm_dw {
	Dwfl *dwfl;
	Dwfl_Module *module;
};

/* elfutils' default: beside the object, in .debug there, and where distributions put them. */
#define USUAL_PLACES ":.debug:/usr/lib/debug"

/* NULL: the usual places. elfutils reads it at each use, so it may change between objects. */
static char *debug_path;

/* Makes each directory absolute: elfutils resolves a relative one against the object. */
static char *spell_path(const char *folders)
{
	char *path = NULL, *folder, *whole;
	size_t length, bytes;
	FILE *out;

	out = open_memstream(&path, &bytes);
	if (!out)
		return NULL;
	for (; *folders; folders += length + (folders[length] == ':')) {
		length = strcspn(folders, ":");
		folder = strndup(folders, length);
		whole = folder ? realpath(folder, NULL) : NULL;
		if (whole)
			(void)fprintf(out, "%s:", whole);
		free(whole);
		free(folder);
	}
	(void)fputs(USUAL_PLACES, out);
	if (!fclose(out))
		return path;
	free(path);
	return NULL;
}

int cm_dw_look_in(const char *folders)
{
	char *path = folders ? spell_path(folders) : NULL;

	if (folders && !path)
		return -ENOMEM;
	free(debug_path);
	debug_path = path;
	return 0;
}

static bool is_file_or_missing(const char *path)
{
	struct stat st;

	return stat(path, &st) || S_ISREG(st.st_mode);
}

/* Whether elfutils may look for `name` beside the object, and in .debug there. */
static bool may_look_for(const char *object, const char *name)
{
	static const char *const folders[] = {"", ".debug/"};
	const char *slash = strrchr(object, '/');
	char *path;
	bool may = true;
	size_t i;

	if (*name == '/')
		return is_file_or_missing(name);
	for (i = 0; i < sizeof(folders) / sizeof(folders[0]) && may; i++) {
		if (asprintf(&path, "%.*s%s%s", slash ? (int)(slash + 1 - object) : 0, object,
			     folders[i], name) < 0)
			return false;
		may = is_file_or_missing(path);
		free(path);
	}
	return may;
}

/* elfutils opens what the object names, and waits if that is a pipe. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *module_name,
			  Dwarf_Addr base, const char *object, const char *link, GElf_Word crc,
			  char **ret_path)
{
	const char *name;
	char *usual;
	bool may;

	if (object) {
		name = basename(object);
		if (asprintf(&usual, "%s.debug", name) < 0)
			return -1;
		may = may_look_for(object, usual) && may_look_for(object, name) &&
		      (!link || may_look_for(object, link));
		free(usual);
		if (!may)
			return -1;
	}
	return dwfl_standard_find_debuginfo(module, data, module_name, base, object, link, crc,
					    ret_path);
}

static const Dwfl_Callbacks callbacks = {
	.find_elf =
		dwfl_build_id_find_elf, /* also asks a debuginfod server, if one is configured */
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = &debug_path,
};

static bool has_build_id(Dwfl_Module *found, const struct cm_module *module)
{
	const unsigned char *bits;
	GElf_Addr at;
	int count;

	/* An object without a build-id is accepted by its name. */
	if (!module->build_id_bytes || module->build_id_bytes > sizeof(module->build_id))
		return true;
	count = dwfl_module_build_id(found, &bits, &at);
	return count == (int)module->build_id_bytes &&
	       !memcmp(bits, module->build_id, module->build_id_bytes);
}

static Dwfl_Module *report_file(Dwfl *dwfl, const struct cm_module *module, const char *path)
{
	Dwfl_Module *found;
	int fd;

	fd = *path ? cm_regular_file_open(AT_FDCWD, path, 0) : -1;
	if (fd < 0)
		return NULL;
	dwfl_report_begin(dwfl);
	/* The file has its own addresses: no bias. On success dwfl owns fd. */
	found = dwfl_report_elf(dwfl, "object", path, fd, 0, true);
	if (!found)
		(void)close(fd);
	(void)dwfl_report_end(dwfl, NULL, NULL);
	return found && has_build_id(found, module) ? found : NULL;
}

static Dwfl_Module *report_build_id(Dwfl *dwfl, const struct cm_module *module)
{
	Dwfl_Module *found;
	GElf_Addr bias;

	if (!module->build_id_bytes || module->build_id_bytes > sizeof(module->build_id) ||
	    module->start < module->bias || module->end <= module->start)
		return NULL;
	dwfl_report_begin(dwfl);
	found = dwfl_report_module(dwfl, "object", module->start - module->bias,
				   module->end - module->bias);
	if (found &&
	    dwfl_module_report_build_id(found, module->build_id, module->build_id_bytes, 0))
		found = NULL;
	(void)dwfl_report_end(dwfl, NULL, NULL);
	return found && dwfl_module_getelf(found, &bias) ? found : NULL;
}

struct cm_dw *cm_dw_open(const struct cm_module *module, const char *path)
{
	struct cm_dw *dw = calloc(1, sizeof(*dw));

	if (!dw)
		return NULL;
	dw->dwfl = dwfl_begin(&callbacks);
	if (dw->dwfl) {
		dw->module = report_file(dw->dwfl, module, path);
		if (!dw->module)
			dw->module = report_build_id(dw->dwfl, module);
	}
	if (dw->module)
		return dw;
	cm_dw_close(dw);
	return NULL;
}

void cm_dw_close(struct cm_dw *dw)
{
	if (!dw)
		return;
	if (dw->dwfl)
		dwfl_end(dw->dwfl);
	free(dw);
}

/* The demangled name; the caller frees it. */
static char *demangle(const char *name)
{
#if CM_HAVE_IBERTY
	char *plain = cplus_demangle(name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);

	if (plain)
		return plain;
#endif
	return strdup(name);
}

static const char *attribute_text(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute memory;
	Dwarf_Attribute *attribute = dwarf_attr_integrate(die, name, &memory);

	return attribute ? dwarf_formstring(attribute) : NULL;
}

static uint32_t attribute_number(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute memory;
	Dwarf_Word value;

	return !dwarf_formudata(dwarf_attr(die, name, &memory), &value) ? (uint32_t)value : 0;
}

static bool is_function(Dwarf_Die *die)
{
	const int tag = dwarf_tag(die);

	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
	       tag == DW_TAG_entry_point;
}

/* The name in the symbol table, if it is mangled as in C++ or Rust. */
static const char *mangled_symbol(Dwfl_Module *module, uint64_t address)
{
	const char *symbol = dwfl_module_addrname(module, address);

	return symbol && (!strncmp(symbol, "_Z", 2) || !strncmp(symbol, "_R", 2)) ? symbol : NULL;
}

/* The linkage name includes parameters and namespaces; C has no linkage names. */
static char *name_die(Dwarf_Die *die, Dwfl_Module *module, uint64_t address)
{
	const char *name = attribute_text(die, DW_AT_linkage_name);

	if (!name)
		name = attribute_text(die, DW_AT_MIPS_linkage_name);
	/* Functions that are local to a file have none in any language. */
	if (!name && dwarf_tag(die) == DW_TAG_subprogram)
		name = mangled_symbol(module, address);
	if (!name)
		name = dwarf_diename(die);
	return name ? demangle(name) : NULL;
}

/* The scopes of an address, innermost first, as they are nested in the code. */
static int find_scopes(Dwfl_Module *module, uint64_t address, Dwarf_Die **ret_scopes)
{
	Dwarf_Addr bias;
	Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), inner, *scopes = NULL;
	int count;

	if (!unit)
		return 0;
	count = dwarf_getscopes(unit, address - bias, &scopes);
	if (count <= 0)
		return 0;
	/* The scopes around an inlined function are those of its definition, not of the call. */
	inner = scopes[0];
	free(scopes);
	scopes = NULL;
	count = dwarf_getscopes_die(&inner, &scopes);
	*ret_scopes = scopes;
	return count > 0 ? count : 0;
}

static const char *call_file(Dwarf_Die *die)
{
	const uint32_t number = attribute_number(die, DW_AT_call_file);
	Dwarf_Files *files;
	Dwarf_Die unit;

	if (!number || !dwarf_diecu(die, &unit, NULL, NULL) ||
	    dwarf_getsrcfiles(&unit, &files, NULL))
		return NULL;
	return dwarf_filesrc(files, number, NULL, NULL);
}

static const char *source_line(Dwfl_Module *module, uint64_t address, uint32_t *ret_line)
{
	Dwfl_Line *line = dwfl_module_getsrc(module, address);
	const char *file = NULL;
	int number = 0;

	if (line)
		file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	*ret_line = number > 0 ? (uint32_t)number : 0;
	return file;
}

/* True: debug information has the function. */
static bool name_scopes(struct cm_dw *dw, uint64_t address, cm_dw_fn fn, void *data)
{
	Dwarf_Die *scopes = NULL;
	const int count = find_scopes(dw->module, address, &scopes);
	uint32_t line;
	const char *file = source_line(dw->module, address, &line);
	bool named = false;
	char *name;
	int i;

	for (i = 0; i < count; i++) {
		if (!is_function(&scopes[i]))
			continue;
		name = name_die(&scopes[i], dw->module, address);
		if (!name)
			break;
		fn(data, name, file, line);
		free(name);
		named = true;
		if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine)
			break;
		/* The next frame is at the call. */
		file = call_file(&scopes[i]);
		line = attribute_number(&scopes[i], DW_AT_call_line);
	}
	free(scopes);
	return named;
}

void cm_dw_name(struct cm_dw *dw, uint64_t address, cm_dw_fn fn, void *data)
{
	const char *symbol, *file;
	uint32_t line;
	char *name;

	if (name_scopes(dw, address, fn, data))
		return;
	symbol = dwfl_module_addrname(dw->module, address);
	if (!symbol)
		return;
	file = source_line(dw->module, address, &line);
	name = demangle(symbol);
	if (name)
		fn(data, name, file, line);
	free(name);
}
