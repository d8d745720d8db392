/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/reserve.h"
#include "tools/snapshot/stacks.h"

#if CM_HAVE_LIBDW
#include "tools/snapshot/symbols_dw.h"
#endif

/* A return address in a generation of the module map. */
struct place {
	uint64_t address;
	uint32_t generation;
	const struct cm_module *module;
};

struct places {
	const struct cm_image *image;
	struct place *place;
	size_t count;
	size_t room;
	bool failed;
};

static void add_places(void *data, uint32_t id, uint64_t word, const uint64_t *frames)
{
	struct places *places = data;
	const uint32_t count = cm_stack_frames(word);
	uint32_t i;

	(void)id;
	if (!cm_reserve(&places->place, &places->room, places->count + count)) {
		places->failed = true;
		return;
	}
	for (i = 0; i < count; i++)
		if (!(frames[i] & CM_FRAME_PYTHON))
			places->place[places->count++] = (struct place){
				.address = frames[i], .generation = cm_stack_generation(word)};
}

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

/* Sorts the places as CM_TABLE_SITE is sorted, without duplicates, and finds their modules. */
static void sort(struct places *places)
{
	size_t i, kept = 0;

	if (places->count)
		qsort(places->place, places->count, sizeof(*places->place), by_address);
	for (i = 0; i < places->count; i++)
		if (!kept || by_address(&places->place[kept - 1], &places->place[i]))
			places->place[kept++] = places->place[i];
	places->count = kept;
	for (i = 0; i < places->count; i++)
		places->place[i].module = cm_module_find(places->image, places->place[i].address,
							 places->place[i].generation);
}

#if CM_HAVE_LIBDW
/* The tables under construction. */
struct tables {
	struct cm_site *site;
	struct cm_frame *frame;
	size_t frames;
	size_t room;
	struct cm_intern texts;
	bool failed;
};

static void add_frame(void *data, const char *function, const char *file, uint32_t line)
{
	struct tables *tables = data;
	struct cm_frame *frame;

	if (!cm_reserve(&tables->frame, &tables->room, tables->frames + 1)) {
		tables->failed = true;
		return;
	}
	frame = &tables->frame[tables->frames++];
	*frame = (struct cm_frame){.line = line};
	/* These are numbers of texts until place_texts() replaces them by offsets. */
	frame->function = cm_intern_text(&tables->texts, function ? function : "");
	frame->file = cm_intern_text(&tables->texts, file ? file : "");
	if (frame->function == CM_INTERN_NONE || frame->file == CM_INTERN_NONE)
		tables->failed = true;
}

/* Names all places of one module, so its debug information is loaded once. */
static void name_module(const struct places *places, const struct cm_module *module,
			struct tables *tables, struct cm_symbols_report *report)
{
	const char *path = cm_image_text(places->image, CM_TABLE_TEXT, module->path);
	struct cm_dw *dw = cm_dw_open(module, path);
	size_t i;

	report->modules++;
	if (!dw) {
		report->missing++;
		return;
	}
	for (i = 0; i < places->count && !tables->failed; i++) {
		struct cm_site *site = &tables->site[i];

		if (places->place[i].module != module)
			continue;
		site->first = (uint32_t)tables->frames;
		/* The address of the call, not the return address. */
		cm_dw_name(dw, site->address - 1 - module->bias, add_frame, tables);
		site->count = (uint32_t)(tables->frames - site->first);
	}
	cm_dw_close(dw);
}

/* Joins the texts to the table of names; frames then have offsets in it. */
static int place_texts(struct tables *tables, struct cm_image_table *names)
{
	uint32_t *at = calloc(tables->texts.count + (size_t)1, sizeof(*at));
	size_t total = 1, bytes, i;
	const void *text;
	char *to;

	for (i = 0; at && i < tables->texts.count; i++) {
		text = cm_intern_bytes(&tables->texts, (uint32_t)i, &bytes);
		at[i] = *(const char *)text ? (uint32_t)total : 0;
		total += *(const char *)text ? bytes : 0;
	}
	to = at && total < UINT32_MAX ? calloc(1, total) : NULL;
	if (!to) {
		free(at);
		return -ENOMEM;
	}
	for (i = 0; i < tables->texts.count; i++) {
		text = cm_intern_bytes(&tables->texts, (uint32_t)i, &bytes);
		if (at[i])
			memcpy(to + at[i], text, bytes);
	}
	for (i = 0; i < tables->frames; i++) {
		tables->frame[i].function = at[tables->frame[i].function];
		tables->frame[i].file = at[tables->frame[i].file];
	}
	free(at);
	names->rows = to;
	names->count = (uint32_t)total;
	return 0;
}

static int name_places(struct cm_image *image, const struct places *places,
		       struct cm_symbols_report *report)
{
	const struct cm_image_table *modules = &image->table[CM_TABLE_MODULE];
	struct tables tables = {.site = calloc(places->count + 1, sizeof(*tables.site))};
	uint8_t *seen = calloc(modules->count + (size_t)1, 1);
	int err = -ENOMEM;
	size_t i, row;

	cm_intern_init(&tables.texts);
	if (!tables.site || !seen)
		goto out;
	for (i = 0; i < places->count; i++) {
		tables.site[i].address = places->place[i].address;
		tables.site[i].generation = places->place[i].generation;
	}
	for (i = 0; i < places->count; i++) {
		if (!places->place[i].module)
			continue;
		row = (size_t)(places->place[i].module - (const struct cm_module *)modules->rows);
		if (!seen[row]++)
			name_module(places, places->place[i].module, &tables, report);
	}
	err = tables.failed ? -ENOMEM : place_texts(&tables, &image->table[CM_TABLE_NAME]);
	if (err)
		goto out;
	image->table[CM_TABLE_SITE] = (struct cm_image_table){tables.site, (uint32_t)places->count};
	image->table[CM_TABLE_FRAME] = (struct cm_image_table){tables.frame,
							       (uint32_t)tables.frames};
	image->saved.named = 1;
	tables.site = NULL;
	tables.frame = NULL;
out:
	cm_intern_fini(&tables.texts);
	free(tables.site);
	free(tables.frame);
	free(seen);
	return err;
}
#endif

int cm_symbols_add(struct cm_image *image, const char *debug_path,
		   struct cm_symbols_report *ret_report)
{
	struct cm_symbols_report report = {0};
	struct places places = {.image = image};
	int err = 0;

	if (!image->saved.named && !image->table[CM_TABLE_SITE].count) {
		cm_stacks_each(image, add_places, &places);
		sort(&places);
		err = places.failed ? -ENOMEM : 0;
#if CM_HAVE_LIBDW
		if (!err)
			err = cm_dw_look_in(debug_path);
		if (!err && places.count)
			err = name_places(image, &places, &report);
#else
		(void)debug_path;
		report.lacks = places.count ? "libdw (elfutils)" : NULL;
#endif
	}
	free(places.place);
	*ret_report = report;
	return err;
}
