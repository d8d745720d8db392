/* SPDX-License-Identifier: MIT */
#include "tools/top/typing.h"

#include <stdio.h>
#include <string.h>

void cm_top_begin_typing(struct cm_top *top, enum cm_top_mode mode, const char *text)
{
	top->mode = mode;
	top->message[0] = '\0';
	(void)snprintf(top->typed, sizeof(top->typed), "%s", text);
}

/* Selects the next process whose command or pid has the text, from `line` on. */
static void search_from(struct cm_top *top, size_t line)
{
	size_t i, at;
	char pid[16];

	for (i = 0; *top->typed && i < top->shown_count; i++) {
		at = (line + i) % top->shown_count;
		(void)snprintf(pid, sizeof(pid), "%d", (int)top->shown[at]->pid);
		if (strstr(top->shown[at]->command, top->typed) || !strcmp(pid, top->typed)) {
			cm_top_select(top, at);
			top->message[0] = '\0';
			return;
		}
	}
}

static void finish_typing(struct cm_top *top)
{
	if (top->mode == CM_TOP_TYPE_FILTER) {
		if (!cm_top_set_filter(top, top->typed))
			return; /* the mistake is shown, the text stays */
		top->mode = CM_TOP_TABLE;
		(void)cm_top_arrange(top);
	} else if (top->mode == CM_TOP_TYPE_FILE) {
		if (!*top->typed)
			return;
		memcpy(top->request.file, top->typed, sizeof(top->request.file));
		top->mode = CM_TOP_CONFIRM;
	} else {
		top->mode = CM_TOP_TABLE;
	}
}

static void erase(char *text)
{
	size_t length = strlen(text);

	while (length && (text[--length] & 0xc0) == 0x80)
		;
	text[length] = '\0';
}

/* Appends a character as UTF-8, if there is room. */
static void append_character(char *text, int key)
{
	const size_t length = strlen(text);
	const unsigned c = (unsigned)key;
	char *to = text + length;
	size_t n = 0;

	if (length + 5 > CM_TOP_TEXT_BYTES)
		return;
	if (c < 0x80) {
		to[n++] = (char)c;
	} else if (c < 0x800) {
		to[n++] = (char)(0xc0 | c >> 6);
		to[n++] = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		to[n++] = (char)(0xe0 | c >> 12);
		to[n++] = (char)(0x80 | (c >> 6 & 0x3f));
		to[n++] = (char)(0x80 | (c & 0x3f));
	} else {
		to[n++] = (char)(0xf0 | c >> 18);
		to[n++] = (char)(0x80 | (c >> 12 & 0x3f));
		to[n++] = (char)(0x80 | (c >> 6 & 0x3f));
		to[n++] = (char)(0x80 | (c & 0x3f));
	}
	to[n] = '\0';
}

enum cm_top_next cm_top_type(struct cm_top *top, int key)
{
	if (key == CM_KEY_ESCAPE) {
		top->mode = CM_TOP_TABLE;
		top->message[0] = '\0';
	} else if (key == CM_KEY_ENTER) {
		finish_typing(top);
	} else if (key == CM_KEY_ERASE) {
		erase(top->typed);
	} else if (key == 'U' - '@') {
		top->typed[0] = '\0';
	} else if (key == CM_KEY_DOWN && top->mode == CM_TOP_TYPE_SEARCH) {
		search_from(top, top->line + 1);
	} else if (key >= ' ' && key < CM_KEY_UP && !(key >= 0x7f && key < 0xa0)) {
		append_character(top->typed, key);
		if (top->mode == CM_TOP_TYPE_SEARCH)
			search_from(top, top->line);
	}
	return CM_TOP_NEXT_NOTHING;
}
