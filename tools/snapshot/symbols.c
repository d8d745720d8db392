/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/symbols.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/reserve.h"
#include "tools/snapshot/module_map.h"
#include "tools/snapshot/stacks.h"

#if CM_HAVE_LIBDW
#include "tools/snapshot/apart.h"
#include "tools/snapshot/symbols_dw.h"
#endif

/* Without a name found for so long no more are: the largest debug files take seconds to open, and a
 * debuginfod server is given up after 90 s. */
#define SILENCE_MS 120000

/* A return address in a generation of the module map. */
struct place {
	uint64_t address;
	uint32_t generation;
	uint32_t object; /* CM_INTERN_NONE: in no module */
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
static int sort(struct places *places)
{
	struct cm_module_map map;
	size_t i, kept = 0;
	int err;

	if (places->count)
		qsort(places->place, places->count, sizeof(*places->place), by_address);
	for (i = 0; i < places->count; i++)
		if (!kept || by_address(&places->place[kept - 1], &places->place[i]))
			places->place[kept++] = places->place[i];
	places->count = kept;
	err = cm_module_map_init(&map, places->image);
	for (i = 0; i < places->count && !err; i++)
		places->place[i].module = cm_module_map_find(&map, places->place[i].address,
							     places->place[i].generation);
	if (!err)
		cm_module_map_fini(&map);
	return err;
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

/* An object may be loaded often, at other addresses: it is one as long as its file is. Without
 * padding, since the bytes are compared. */
struct object_key {
	uint32_t path;
	uint32_t build_id_bytes;
	uint8_t build_id[20];
};

/* Numbers the objects. -ENOMEM. */
static int find_objects(struct places *places, uint32_t *ret_count)
{
	struct cm_intern objects;
	size_t i;
	int err = 0;

	cm_intern_init(&objects);
	for (i = 0; i < places->count && !err; i++) {
		struct place *place = &places->place[i];
		struct object_key key = {0};

		place->object = CM_INTERN_NONE;
		if (!place->module)
			continue;
		key.path = place->module->path;
		key.build_id_bytes = place->module->build_id_bytes;
		memcpy(key.build_id, place->module->build_id, sizeof(key.build_id));
		place->object = cm_intern_add(&objects, &key, sizeof(key));
		err = place->object == CM_INTERN_NONE ? -ENOMEM : 0;
	}
	*ret_count = objects.count;
	cm_intern_fini(&objects);
	return err;
}

/* The address of the call, not the return address, as the object has it. */
static uint64_t offset_of(const struct place *place)
{
	return place->address - 1 - place->module->bias;
}

static int by_offset(const void *a, const void *b, void *data)
{
	const struct place *place = data, *x = &place[*(const uint32_t *)a];
	const struct place *y = &place[*(const uint32_t *)b];

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	if (x->object == CM_INTERN_NONE || offset_of(x) == offset_of(y))
		return 0;
	return offset_of(x) < offset_of(y) ? -1 : 1;
}

/* What the child says of the files: an object, or a frame of one of its offsets. */
enum word_kind {
	WORD_OBJECT, /* number: of the first place in it; line: whether it was found */
	WORD_FRAME,  /* number: of the place; the texts follow */
	WORD_END,
};

struct word {
	uint32_t kind;
	uint32_t number;
	uint32_t line;
	uint32_t function_bytes;
	uint32_t file_bytes;
};

/* What the child needs, and where it writes. */
struct naming {
	const struct places *places;
	const uint32_t *order; /* of the places, by object and offset */
	const char *debug_path;
	bool local;
	FILE *to;
	uint32_t number;
};

#define TEXT_MOST 65536u /* of a function or a file; what is longer is cut */

static uint32_t count_text(const char *text)
{
	return text ? (uint32_t)strnlen(text, TEXT_MOST) : 0;
}

static void say_frame(void *data, const char *function, const char *file, uint32_t line)
{
	const struct naming *naming = data;
	const struct word word = {WORD_FRAME, naming->number, line, count_text(function),
				  count_text(file)};

	(void)fwrite(&word, sizeof(word), 1, naming->to);
	(void)fwrite(function ? function : "", 1, word.function_bytes, naming->to);
	(void)fwrite(file ? file : "", 1, word.file_bytes, naming->to);
}

static void put_word(const struct naming *naming, enum word_kind kind, uint32_t number, bool found)
{
	const struct word word = {.kind = kind, .number = number, .line = found};

	(void)fwrite(&word, sizeof(word), 1, naming->to);
	(void)fflush(naming->to);
}

/* Opens each object once, and names each of its offsets once. */
static void name_apart(void *data, FILE *to)
{
	struct naming *naming = data;
	const struct places *places = naming->places;
	const struct place *place, *last = NULL;
	struct cm_dw *dw = NULL;
	size_t i;

	naming->to = to;
	if (naming->local)
		(void)unsetenv("DEBUGINFOD_URLS");
	if (cm_dw_look_in(naming->debug_path))
		return;
	for (i = 0; i < places->count; i++, last = place) {
		place = &places->place[naming->order[i]];
		if (place->object == CM_INTERN_NONE)
			break;
		if (!last || last->object != place->object) {
			cm_dw_close(dw);
			dw = cm_dw_open(place->module, cm_image_text(places->image, CM_TABLE_TEXT,
								     place->module->path));
			put_word(naming, WORD_OBJECT, naming->order[i], dw != NULL);
		} else if (offset_of(last) == offset_of(place)) {
			continue;
		}
		naming->number = naming->order[i];
		if (dw)
			cm_dw_name(dw, offset_of(place), say_frame, naming);
		(void)fflush(to);
	}
	cm_dw_close(dw);
	put_word(naming, WORD_END, 0, true);
}

/* Reads the texts of a frame, and adds it to its place. False: the child has ended. */
static bool hear_frame(struct cm_apart *apart, const struct word *word, struct tables *tables,
		       char *text)
{
	struct cm_site *site = &tables->site[word->number];
	char *file = text + TEXT_MOST + 1;

	if (word->function_bytes > TEXT_MOST || word->file_bytes > TEXT_MOST ||
	    !cm_apart_read(apart, text, word->function_bytes) ||
	    !cm_apart_read(apart, file, word->file_bytes))
		return false;
	text[word->function_bytes] = file[word->file_bytes] = '\0';
	if (site->count == CM_STACK_FRAMES_MAX)
		return true;
	if (!site->count++)
		site->first = (uint32_t)tables->frames;
	add_frame(tables, text, file, word->line);
	return !tables->failed;
}

/* Hears the child until it has said all, or is silent for too long. */
static void hear(struct cm_apart *apart, const struct places *places, struct tables *tables,
		 uint32_t objects, struct cm_symbols_report *report)
{
	char *text = malloc(2 * (size_t)(TEXT_MOST + 1));
	struct word word;
	uint32_t found = 0;

	tables->failed = !text;
	while (text && cm_apart_read(apart, &word, sizeof(word)) && word.kind != WORD_END) {
		if (word.number >= places->count)
			break;
		if (word.kind == WORD_OBJECT)
			found += word.line != 0;
		else if (!hear_frame(apart, &word, tables, text))
			break;
	}
	free(text);
	report->modules = objects;
	report->missing = objects - (found < objects ? found : objects);
}

/* Gives the frames of an offset to all places that have it. */
static void share_frames(const struct places *places, const uint32_t *order, struct cm_site *site)
{
	size_t i;

	for (i = 1; i < places->count; i++) {
		if (places->place[order[i]].object == CM_INTERN_NONE)
			break;
		if (by_offset(&order[i - 1], &order[i], places->place))
			continue;
		site[order[i]].first = site[order[i - 1]].first;
		site[order[i]].count = site[order[i - 1]].count;
	}
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

/* Asks a process apart for the names: it opens files that others name. */
static int ask_names(const struct cm_symbols_from *from, struct places *places,
		     struct tables *tables, struct cm_symbols_report *report)
{
	uint32_t *order = calloc(places->count, sizeof(*order)), objects = 0;
	struct naming naming = {.places = places,
				.order = order,
				.debug_path = from->debug_path,
				.local = from->local};
	struct cm_apart apart;
	size_t i;
	int err = order ? find_objects(places, &objects) : -ENOMEM;

	if (err)
		goto out;
	for (i = 0; i < places->count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, places->count, sizeof(*order), by_offset, places->place);
	err = cm_apart_start(from->owner, SILENCE_MS, name_apart, &naming, &apart);
	if (err)
		goto out;
	hear(&apart, places, tables, objects, report);
	cm_apart_end(&apart);
	share_frames(places, order, tables->site);
	err = tables->failed ? -ENOMEM : 0;
out:
	free(order);
	return err;
}

static int name_places(struct cm_image *image, const struct cm_symbols_from *from,
		       struct places *places, struct cm_symbols_report *report)
{
	struct tables tables = {.site = calloc(places->count + 1, sizeof(*tables.site))};
	int err = -ENOMEM;
	size_t i;

	cm_intern_init(&tables.texts);
	if (!tables.site)
		goto out;
	for (i = 0; i < places->count; i++) {
		tables.site[i].address = places->place[i].address;
		tables.site[i].generation = places->place[i].generation;
	}
	err = ask_names(from, places, &tables, report);
	if (!err)
		err = place_texts(&tables, &image->table[CM_TABLE_NAME]);
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
	return err;
}
#endif

int cm_symbols_add(struct cm_image *image, const struct cm_symbols_from *from,
		   struct cm_symbols_report *ret_report)
{
	struct cm_symbols_report report = {0};
	struct places places = {.image = image};
	int err = 0;

	if (!image->saved.named && !image->table[CM_TABLE_SITE].count) {
		cm_stacks_each(image, add_places, &places);
		err = places.failed ? -ENOMEM : sort(&places);
#if CM_HAVE_LIBDW
		if (!err && places.count)
			err = name_places(image, from, &places, &report);
#else
		(void)from;
		report.lacks = places.count ? "libdw (elfutils)" : NULL;
#endif
	}
	free(places.place);
	*ret_report = report;
	return err;
}
