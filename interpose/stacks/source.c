/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/source.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "interpose/stacks/object_file.h"
#include "interpose/stacks/plain_name.h"

#define SYMBOL_BYTES  (UINT64_C(64) << 20) /* of a table, 2.8 million symbols, which take 30 ms */
#define LINE_BYTES    (UINT64_C(8) << 20)  /* of a table, which take 60 ms */
#define OPERANDS      256
#define FORMATS_MAX   8
#define LEAST_ADDRESS 16 /* sequences of functions that the linker dropped begin at 0 or 1 */

static bool is_function_at(const ElfW(Sym) * symbol, uint64_t address)
{
	const unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       address - symbol->st_value < symbol->st_size;
}

static void find_function(struct cm_object_file *file, uint64_t address, struct cm_source *source)
{
	struct cm_object_cursor symbols = cm_object_cursor(file, file->symbols);
	struct cm_object_cursor names = cm_object_cursor(file, file->symbol_names);
	char name[8 * CM_SOURCE_BYTES]; /* mangled names are long */
	ElfW(Sym) symbol;

	if (symbols.end - symbols.at > SYMBOL_BYTES)
		return;
	do
		cm_object_read_bytes(&symbols, &symbol, sizeof(symbol));
	while (!symbols.ended && !is_function_at(&symbol, address));
	if (symbols.ended)
		return;
	cm_object_skip(&names, symbol.st_name);
	(void)cm_object_read_text(&names, name, sizeof(name));
	if (!names.ended)
		cm_plain_name(source->function, sizeof(source->function), name);
}

/* The header of a line table's unit, as far as it is needed. */
struct unit {
	struct cm_object_cursor program;
	struct cm_object_part files; /* from the folders on */
	unsigned version;
	size_t offset_bytes; /* 4 or 8 */
	unsigned least;      /* bytes of an instruction */
	int line_base;
	unsigned line_range;
	unsigned opcodes; /* the first special one */
	uint8_t operands[OPERANDS];
};

/* The registers of the line machine, and the row before. */
struct machine {
	uint64_t address, row_address;
	uint64_t file, row_file;
	int64_t line, row_line;
	bool has_row;
	bool live; /* the sequence has an address that code can have */
};

/* Reads a unit's header and moves the cursor behind the unit. False: not a unit that is known. */
static bool read_unit(struct cm_object_cursor *at, struct unit *unit)
{
	uint64_t length = cm_object_read_number(at, 4);
	struct cm_object_cursor head;
	unsigned i;

	unit->offset_bytes = length == UINT32_MAX ? 8 : 4;
	if (length == UINT32_MAX)
		length = cm_object_read_number(at, 8);
	head = *at;
	cm_object_skip(at, length);
	if (at->ended || !length)
		return false;
	head.end = at->at;
	unit->version = (unsigned)cm_object_read_number(&head, 2);
	if (unit->version >= 5)
		cm_object_skip(&head, 2); /* bytes of an address, and of a segment */
	length = cm_object_read_number(&head, unit->offset_bytes);
	unit->program = head;
	cm_object_skip(&unit->program, length);
	unit->least = cm_object_read_u8(&head);
	if (unit->version >= 4)
		cm_object_skip(&head, 1);
	cm_object_skip(&head, 1);
	unit->line_base = (cm_object_read_u8(&head) ^ 0x80) - 0x80; /* with a sign */
	unit->line_range = cm_object_read_u8(&head);
	unit->opcodes = cm_object_read_u8(&head);
	for (i = 1; i < unit->opcodes; i++)
		unit->operands[i] = cm_object_read_u8(&head);
	unit->files = (struct cm_object_part){head.at, unit->program.at};
	return !head.ended && !unit->program.ended && unit->line_range && unit->opcodes &&
	       unit->version >= 2 && unit->version <= 5;
}

static void begin_sequence(struct machine *machine)
{
	*machine = (struct machine){.file = 1, .line = 1};
}

/* A row covers the addresses up to the next one. Returns whether the row before is looked for. */
static bool end_row(struct machine *machine, uint64_t wanted)
{
	if (machine->has_row && machine->live && machine->row_address <= wanted &&
	    wanted < machine->address)
		return true;
	machine->row_address = machine->address;
	machine->row_file = machine->file;
	machine->row_line = machine->line;
	machine->has_row = true;
	return false;
}

static bool run_extended(struct unit *unit, struct machine *machine, uint64_t wanted)
{
	const uint64_t length = cm_object_read_uleb(&unit->program),
		       next = unit->program.at + length;
	const uint8_t opcode = length ? cm_object_read_u8(&unit->program) : 0;
	bool found = false;

	if (opcode == 1) { /* DW_LNE_end_sequence */
		found = end_row(machine, wanted);
		if (!found)
			begin_sequence(machine);
	} else if (opcode == 2) { /* DW_LNE_set_address */
		machine->address = cm_object_read_number(&unit->program, 8);
		machine->live = machine->address >= LEAST_ADDRESS;
	}
	if (unit->program.at < next)
		cm_object_skip(&unit->program, next - unit->program.at);
	return found;
}

static bool run_standard(struct unit *unit, struct machine *machine, unsigned opcode,
			 uint64_t wanted)
{
	unsigned i;

	switch (opcode) {
	case 1: /* DW_LNS_copy */
		return end_row(machine, wanted);
	case 2: /* DW_LNS_advance_pc */
		machine->address += cm_object_read_uleb(&unit->program) * unit->least;
		break;
	case 3: /* DW_LNS_advance_line */
		machine->line += cm_object_read_sleb(&unit->program);
		break;
	case 4: /* DW_LNS_set_file */
		machine->file = cm_object_read_uleb(&unit->program);
		break;
	case 8: /* DW_LNS_const_add_pc */
		machine->address += (uint64_t)((255 - unit->opcodes) / unit->line_range) *
				    unit->least;
		break;
	case 9: /* DW_LNS_fixed_advance_pc */
		machine->address += cm_object_read_number(&unit->program, 2);
		break;
	default:
		for (i = 0; i < unit->operands[opcode]; i++)
			(void)cm_object_read_uleb(&unit->program);
	}
	return false;
}

/* Runs the program of a unit until the row of the address. */
static bool run_unit(struct unit *unit, uint64_t wanted, struct machine *machine)
{
	unsigned opcode;
	bool found = false;

	begin_sequence(machine);
	while (!found && unit->program.at < unit->program.end && !unit->program.ended) {
		opcode = cm_object_read_u8(&unit->program);
		if (opcode >= unit->opcodes) {
			opcode -= unit->opcodes;
			machine->address += (uint64_t)(opcode / unit->line_range) * unit->least;
			machine->line += unit->line_base + (int)(opcode % unit->line_range);
			found = end_row(machine, wanted);
		} else if (opcode) {
			found = run_standard(unit, machine, opcode, wanted);
		} else {
			found = run_extended(unit, machine, wanted);
		}
	}
	return found;
}

/* "name" for "folder/name" */
static void keep_file_name(char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		memmove(path, slash + 1, strlen(slash + 1) + 1);
}

/* Versions 2 to 4: folders, then files from 1 on, each list up to an empty text. */
static bool find_file_old(struct cm_object_cursor *at, uint64_t number, char *to, size_t bytes)
{
	while (cm_object_read_text(at, NULL, 0))
		continue;
	while (!at->ended && cm_object_read_text(at, to, bytes)) {
		if (!--number)
			return !at->ended;
		(void)cm_object_read_uleb(at);
		(void)cm_object_read_uleb(at);
		(void)cm_object_read_uleb(at);
	}
	return false;
}

/* Reads a value of one of the forms that tables of files have. A text goes to `to`, unless it is
 * NULL. False: another form. */
static bool read_form(struct cm_object_cursor *at, const struct unit *unit, uint64_t form, char *to,
		      size_t bytes)
{
	struct cm_object_cursor text;

	switch (form) {
	case 0x08: /* DW_FORM_string */
		(void)cm_object_read_text(at, to, bytes);
		return true;
	case 0x0e: /* DW_FORM_strp */
	case 0x1f: /* DW_FORM_line_strp */
		text = cm_object_cursor(at->file,
					form == 0x0e ? at->file->texts : at->file->line_texts);
		cm_object_skip(&text, cm_object_read_number(at, unit->offset_bytes));
		if (to)
			(void)cm_object_read_text(&text, to, bytes);
		return true;
	case 0x0b: /* DW_FORM_data1 */
	case 0x05: /* DW_FORM_data2 */
	case 0x06: /* DW_FORM_data4 */
	case 0x07: /* DW_FORM_data8 */
	case 0x1e: /* DW_FORM_data16 */
		cm_object_skip(at, form == 0x0b   ? 1
				   : form == 0x05 ? 2
				   : form == 0x06 ? 4
				   : form == 0x07 ? 8
						  : 16);
		return true;
	case 0x0f: /* DW_FORM_udata */
		(void)cm_object_read_uleb(at);
		return true;
	default:
		return false;
	}
}

/* Version 5: a description of the columns, then the rows, of the folders and then of the files.
 * Passes the rows before `number`; its text goes to `to`. */
static bool read_table(struct cm_object_cursor *at, const struct unit *unit, uint64_t number,
		       char *to, size_t bytes)
{
	const unsigned columns = cm_object_read_u8(at);
	uint64_t content[FORMATS_MAX], form[FORMATS_MAX], rows, row;
	unsigned i;

	if (columns > FORMATS_MAX)
		return false;
	for (i = 0; i < columns; i++) {
		content[i] = cm_object_read_uleb(at);
		form[i] = cm_object_read_uleb(at);
	}
	rows = cm_object_read_uleb(at);
	for (row = 0; columns && row < rows && !at->ended; row++) {
		for (i = 0; i < columns; i++)
			if (!read_form(at, unit, form[i],
				       row == number && content[i] == 1 ? to : NULL, bytes))
				return false;
		if (row == number)
			return !at->ended;
	}
	return !at->ended;
}

static void name_file(struct cm_object_file *file, const struct unit *unit, uint64_t number,
		      struct cm_source *source)
{
	struct cm_object_cursor at = cm_object_cursor(file, unit->files);
	char path[8 * CM_SOURCE_BYTES] = "";
	bool found;

	if (unit->version < 5)
		found = number && find_file_old(&at, number, path, sizeof(path));
	else
		found = read_table(&at, unit, UINT64_MAX, NULL, 0) &&
			read_table(&at, unit, number, path, sizeof(path));
	keep_file_name(path);
	if (found && *path && strlen(path) < sizeof(source->file))
		memcpy(source->file, path, strlen(path) + 1);
}

static void find_line(struct cm_object_file *file, uint64_t address, struct cm_source *source)
{
	struct cm_object_cursor at = cm_object_cursor(file, file->lines);
	struct machine machine;
	struct unit unit;

	if (at.end - at.at > LINE_BYTES)
		return;
	while (at.at < at.end && !at.ended) {
		if (!read_unit(&at, &unit) || !run_unit(&unit, address, &machine))
			continue;
		name_file(file, &unit, machine.row_file, source);
		source->line = (uint32_t)machine.row_line;
		return;
	}
}

void cm_source_find(const struct dl_phdr_info *info, uint64_t address, struct cm_source *source)
{
	struct cm_object_file file;

	if (!cm_object_file_open(info, &file))
		return;
	find_function(&file, address, source);
	find_line(&file, address, source);
	cm_object_file_close(&file);
}
