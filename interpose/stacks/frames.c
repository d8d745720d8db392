/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/frames.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "interpose/core/state.h"
#include "interpose/stacks/plain_name.h"
#include "interpose/stacks/source.h"
#include "interpose/symbols/next_symbol.h"
#include "stats/code_layers.h"
#include "stats/region.h"
#include "stats/text.h"

#define FRAMES_MAX  4 /* a line has room for no more */
#define FRAME_BYTES 64

struct line {
	char *text;
	size_t bytes;
	size_t length;
	unsigned frames;
};

/* Names of files and functions may contain anything, control characters too. */
static void add_frame(struct line *line, const char *frame)
{
	const char *before = line->frames++ ? " < " : "";
	char clean[3 * FRAME_BYTES];
	int n;

	(void)cm_text_clean(clean, sizeof(clean), frame);
	n = snprintf(line->text + line->length, line->bytes - line->length, "%s%s", before, clean);

	line->length += n > 0 ? (size_t)n : 0;
	if (line->length >= line->bytes) {
		line->length = line->bytes - 1;
		if (line->bytes > 4)
			memcpy(line->text + line->bytes - 4, "...", 4);
	}
}

static bool is_full(const struct line *line)
{
	return line->frames == FRAMES_MAX || line->length == line->bytes - 1;
}

/* "FUNCTION\nFILE" and a line number. */
static void add_python(struct line *line, const struct cm_region *region, uint64_t frame)
{
	const char *text = cm_region_row(region, CM_TABLE_TEXT, cm_frame_text(frame)), *split;
	char frame_text[FRAME_BYTES];

	split = strchr(text, CM_FRAME_TEXT_SPLIT);
	(void)snprintf(frame_text, sizeof(frame_text), "%.*s %s:%u",
		       split ? (int)(split - text) : (int)strlen(text), text,
		       split ? cm_text_file_name(split + 1) : "?", cm_frame_line(frame));
	add_frame(line, frame_text);
}

/* What is known of an address; the texts are copies, since objects can be unloaded. */
struct place {
	uint64_t address;
	char object[FRAME_BYTES]; /* "": in no object */
	uint64_t offset;          /* in the object */
	enum cm_layer layer;
	struct cm_source source;
};

static int find_place(struct dl_phdr_info *info, size_t size, void *data)
{
	struct place *place = data;
	struct cm_object object;
	const char *function, *path;

	(void)size;
	if (!cm_object_read(info, place->address, &object))
		return 0;
	place->offset = place->address - info->dlpi_addr;
	path = *info->dlpi_name ? info->dlpi_name : program_invocation_short_name;
	(void)snprintf(place->object, sizeof(place->object), "%s", cm_text_file_name(path));
	function = object.dynamic ? cm_object_function_at(&object, place->address) : NULL;
	if (function)
		cm_plain_name(place->source.function, sizeof(place->source.function), function);
	place->layer = cm_layer_native(path, place->source.function, NULL);
	if (place->layer == CM_LAYER_PROGRAM) {
		cm_source_find(info, place->offset, &place->source);
		place->layer = cm_layer_native(path, place->source.function, NULL);
	}
	return 1;
}

static void look_up_place(uint64_t frame, struct place *ret_place)
{
	*ret_place = (struct place){.address = frame - 1}; /* inside the call, not after it */
	(void)dl_iterate_phdr(find_place, ret_place);
}

static void add_native(struct line *line, const struct place *place)
{
	char frame_text[3 * FRAME_BYTES];
	const struct cm_source *source = &place->source;

	if (*source->function && *source->file)
		(void)snprintf(frame_text, sizeof(frame_text), "%s %s:%u", source->function,
			       source->file, source->line);
	else if (*source->function)
		(void)snprintf(frame_text, sizeof(frame_text), "%s", source->function);
	else if (*place->object)
		(void)snprintf(frame_text, sizeof(frame_text), "%s+0x%llx", place->object,
			       (unsigned long long)place->offset);
	else
		(void)snprintf(frame_text, sizeof(frame_text), "0x%llx",
			       (unsigned long long)place->address);
	add_frame(line, frame_text);
}

static enum cm_layer layer_of_python(const struct cm_region *region, uint64_t frame)
{
	const char *text = cm_region_row(region, CM_TABLE_TEXT, cm_frame_text(frame));
	const char *split = strchr(text, CM_FRAME_TEXT_SPLIT);

	return cm_layer_python(split ? split + 1 : "", NULL);
}

/* Adds the Python frames of the program. */
static void add_all_python(struct line *line, const struct cm_region *region, const uint64_t *word,
			   uint32_t frames)
{
	uint32_t i;

	for (i = 1; i <= frames && !is_full(line); i++)
		if ((word[i] & CM_FRAME_PYTHON) &&
		    layer_of_python(region, word[i]) == CM_LAYER_PROGRAM)
			add_python(line, region, word[i]);
}

/* Adds the native frames of the program up to main, or those of the given layer. */
static void add_all_native(struct line *line, const uint64_t *word, uint32_t frames,
			   enum cm_layer layer)
{
	struct place place;
	uint32_t i;

	for (i = 1; i <= frames && !is_full(line); i++) {
		if (word[i] & CM_FRAME_PYTHON)
			continue;
		look_up_place(word[i], &place);
		if (place.layer != layer)
			continue;
		add_native(line, &place);
		if (!strcmp(place.source.function, "main"))
			return;
	}
}

void cm_frames_describe(uint32_t stack, char *text, size_t bytes)
{
	const struct cm_region *region = cm_process_region();
	struct line line = {.text = text, .bytes = bytes};
	const uint64_t *word;
	uint32_t frames;

	(void)snprintf(text, bytes, "an unknown place");
	if (!stack || !region)
		return;
	word = cm_region_row(region, CM_TABLE_STACK, stack);
	frames = cm_stack_frames(*word);
	add_all_python(&line, region, word, frames);
	if (!line.frames)
		add_all_native(&line, word, frames, CM_LAYER_PROGRAM);
	if (!line.frames)
		add_all_native(&line, word, frames, CM_LAYER_LIBRARY);
	if (!line.frames)
		add_all_native(&line, word, frames, CM_LAYER_PLUMBING);
}
