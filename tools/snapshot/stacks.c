/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"
#include "tools/output/reserve.h"
#include "tools/snapshot/module_map.h"

#define UNKNOWN    "??"
#define TEXT_BYTES 4096
/* A limit for the frames of all stacks together, by the words of the table: an address stands for a
 * function and those inlined into it, rarely for ten. A table that claims more is damaged. */
#define FRAMES_A_WORD 64
#define FRAMES_FEW    ((size_t)1 << 16)
#define FRAMES_MAX    ((size_t)1 << 28)

void cm_stacks_each(const struct cm_image *image,
		    void (*fn)(void *data, uint32_t id, uint64_t word, const uint64_t *frames),
		    void *data)
{
	const struct cm_image_table *table = &image->table[CM_TABLE_STACK];
	const uint64_t *words = table->rows;
	uint64_t used = image->header.record.stack_words, at, frames;

	if (used > table->count)
		used = table->count;
	for (at = 1; at < used; at += 1 + frames) {
		frames = cm_stack_frames(words[at]);
		/* A word of 0 frames ends the used part. */
		if (!frames || frames > CM_STACK_FRAMES_MAX || frames >= used - at)
			break;
		fn(data, (uint32_t)at, words[at], &words[at + 1]);
	}
}

/* The frames of one word of a stack, in building.number. */
struct word_frames {
	uint32_t first;
	uint32_t count;
};

/* A snapshot whose stacks are under construction. */
struct building {
	struct cm_snapshot *snapshot;
	size_t frame_room;
	size_t list_room;
	size_t stack_room;
	struct cm_module_map modules;
	struct cm_intern lists; /* the frames of each stack: equal stacks become one */
	struct cm_intern words; /* of stacks, with their generation: each is looked up once */
	struct word_frames *word_frames; /* by number of the word */
	size_t words_known;
	size_t word_frames_room;
	uint32_t *number; /* of frames */
	size_t numbers;
	size_t number_room;
	size_t most;   /* the limit for the frames of the words, and for those of the stacks */
	size_t listed; /* frames of the stacks so far, equal stacks included */
	bool failed;
};

/* Without padding, since the bytes are compared. */
struct word_key {
	uint64_t word;
	uint64_t generation;
};

struct frame_key {
	uint32_t function;
	uint32_t file;
	uint32_t module;
	uint32_t line;
	uint32_t python;
};

static const char *text_of(const struct cm_snapshot *snapshot, uint32_t number)
{
	return cm_intern_bytes(&snapshot->texts, number, NULL);
}

/* The number of a text, after control characters were replaced. */
static uint32_t intern_clean(struct cm_snapshot *snapshot, const char *text)
{
	char clean[TEXT_BYTES];

	cm_text_clean(clean, sizeof(clean), text);
	return cm_intern_text(&snapshot->texts, clean);
}

static void add_frame(struct building *building, const char *function, const char *file,
		      const char *module, uint32_t line, bool python)
{
	struct cm_snapshot *snapshot = building->snapshot;
	struct frame_key key;
	uint32_t number;

	key.function = intern_clean(snapshot, *function ? function : UNKNOWN);
	key.file = intern_clean(snapshot, *file ? file : UNKNOWN);
	key.module = intern_clean(snapshot, module);
	key.line = line;
	key.python = python;
	number = cm_intern_add(&snapshot->keys, &key, sizeof(key));
	if (key.function == CM_INTERN_NONE || key.file == CM_INTERN_NONE ||
	    key.module == CM_INTERN_NONE || number == CM_INTERN_NONE ||
	    !cm_reserve(&snapshot->frame, &building->frame_room, number + (size_t)1) ||
	    !cm_reserve(&building->number, &building->number_room, building->numbers + 1)) {
		building->failed = true;
		return;
	}
	if (number == snapshot->frames) {
		snapshot->frame[number] = (struct cm_snap_frame){
			.function = text_of(snapshot, key.function),
			.file = text_of(snapshot, key.file),
			.module = text_of(snapshot, key.module),
			.line = line,
			.python = python,
		};
		snapshot->frames++;
	}
	building->number[building->numbers++] = number;
}

static void add_python(struct building *building, uint64_t frame)
{
	const struct cm_image *image = building->snapshot->image;
	const char *text = cm_image_text(image, CM_TABLE_TEXT, cm_frame_text(frame)), *split;
	char function[TEXT_BYTES];

	split = strchr(text, CM_FRAME_TEXT_SPLIT);
	(void)snprintf(function, sizeof(function), "%.*s",
		       (int)(split ? split - text : (ptrdiff_t)strlen(text)), text);
	add_frame(building, function, split ? split + 1 : "", "", cm_frame_line(frame), true);
}

static int by_address(const void *a, const void *b)
{
	const struct cm_site *x = a, *y = b;

	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static void add_unnamed(struct building *building, uint64_t address, const struct cm_module *module,
			const char *path)
{
	char name[TEXT_BYTES];

	if (module)
		(void)snprintf(name, sizeof(name), "%s+0x%" PRIx64,
			       *path ? basename(path) : "program", address - 1 - module->bias);
	else
		(void)snprintf(name, sizeof(name), "0x%" PRIx64, address - 1);
	add_frame(building, name, "", path, 0, false);
}

static void add_native(struct building *building, uint64_t address, uint32_t generation)
{
	const struct cm_image *image = building->snapshot->image;
	const struct cm_image_table *frames = &image->table[CM_TABLE_FRAME];
	const struct cm_module *module = cm_module_map_find(&building->modules, address,
							    generation);
	const struct cm_image_table *sites = &image->table[CM_TABLE_SITE];
	const struct cm_site key = {.address = address, .generation = generation};
	const struct cm_site *site = sites->count ? bsearch(&key, sites->rows, sites->count,
							    sizeof(key), by_address)
						  : NULL;
	const char *path = module ? cm_image_text(image, CM_TABLE_TEXT, module->path) : "";
	const struct cm_frame *row;
	uint32_t i;

	/* An address without names gets one frame beyond the limit, too. */
	if (!site || !site->count || site->first >= frames->count ||
	    site->count > frames->count - site->first ||
	    building->numbers + site->count > building->most) {
		add_unnamed(building, address, module, path);
		return;
	}
	for (i = 0; i < site->count && i < CM_STACK_FRAMES_MAX; i++) {
		row = (const struct cm_frame *)frames->rows + site->first + i;
		add_frame(building, cm_image_text(image, CM_TABLE_NAME, row->function),
			  cm_image_text(image, CM_TABLE_NAME, row->file), path, row->line, false);
	}
}

/* The frames of a word; NULL: not enough memory. */
static const struct word_frames *find_word_frames(struct building *building, uint64_t word,
						  uint32_t generation)
{
	const bool python = word & CM_FRAME_PYTHON;
	const struct word_key key = {word, python ? 0 : generation};
	const uint32_t number = cm_intern_add(&building->words, &key, sizeof(key));
	struct word_frames *word_frames;

	if (number == CM_INTERN_NONE ||
	    !cm_reserve(&building->word_frames, &building->word_frames_room, number + (size_t)1))
		return NULL;
	word_frames = &building->word_frames[number];
	if (number < building->words_known)
		return word_frames;
	building->words_known++;
	word_frames->first = (uint32_t)building->numbers;
	if (python)
		add_python(building, word);
	else
		add_native(building, word, generation);
	word_frames->count = (uint32_t)(building->numbers - word_frames->first);
	return building->failed ? NULL : word_frames;
}

/* Appends the frames of a word to the list. False: not enough memory, or too many frames. */
static bool list_word(struct building *building, uint64_t word, uint32_t generation)
{
	struct cm_snapshot *snapshot = building->snapshot;
	const struct word_frames *word_frames = find_word_frames(building, word, generation);

	if (!word_frames || !cm_reserve(&snapshot->frame_list, &building->list_room,
					snapshot->frame_list_count + word_frames->count)) {
		building->failed = true;
		return false;
	}
	if (word_frames->count > building->most - building->listed)
		return false;
	memcpy(&snapshot->frame_list[snapshot->frame_list_count],
	       &building->number[word_frames->first],
	       word_frames->count * sizeof(*snapshot->frame_list));
	snapshot->frame_list_count += word_frames->count;
	building->listed += word_frames->count;
	return true;
}

/* The interpreter's functions that run Python frames: these stand in their place. */
static bool is_evaluator(const struct cm_snap_frame *frame)
{
	return !frame->python && !strncmp(frame->function, "_PyEval_", 8);
}

/* Without Python frames that were read, the interpreter's are all that there is of them. */
static void fold_evaluators(struct cm_snapshot *snapshot, struct cm_snap_stack *stack)
{
	uint32_t i, kept = 0;
	bool python = false;

	for (i = 0; i < stack->count; i++)
		python |= cm_stack_frame(snapshot, stack, i)->python;
	for (i = 0; python && i < stack->count; i++)
		if (!is_evaluator(cm_stack_frame(snapshot, stack, i)))
			snapshot->frame_list[stack->first + kept++] =
				snapshot->frame_list[stack->first + i];
	if (python)
		stack->count = kept;
	snapshot->frame_list_count = stack->first + stack->count;
}

static void add_stack(void *data, uint32_t id, uint64_t word, const uint64_t *frames)
{
	struct building *building = data;
	struct cm_snapshot *snapshot = building->snapshot;
	struct cm_snap_stack *stack;
	uint32_t i, number;

	if (building->failed ||
	    !cm_reserve(&snapshot->stack, &building->stack_room, snapshot->stacks + 1)) {
		building->failed = true;
		return;
	}
	stack = &snapshot->stack[snapshot->stacks];
	stack->id = id;
	stack->first = (uint32_t)snapshot->frame_list_count;
	for (i = 0; i < cm_stack_frames(word); i++) {
		if (list_word(building, frames[i], cm_stack_generation(word)))
			continue;
		snapshot->broken_stacks++;
		snapshot->frame_list_count = stack->first;
		return;
	}
	stack->count = (uint32_t)snapshot->frame_list_count - stack->first;
	fold_evaluators(snapshot, stack);
	/* Two calls on one line have two addresses, but the same frames. */
	number = cm_intern_add(&building->lists, &snapshot->frame_list[stack->first],
			       stack->count * sizeof(*snapshot->frame_list));
	if (number == CM_INTERN_NONE) {
		building->failed = true;
		return;
	}
	snapshot->stack_at[id] = number + 1; /* 0 is the empty stack */
	if (number + (size_t)1 == snapshot->stacks)
		snapshot->stacks++;
	else
		snapshot->frame_list_count = stack->first;
}

/* The limit for the frames of a table of so many words. */
static size_t count_most(uint32_t words)
{
	const size_t most = FRAMES_FEW + (size_t)words * FRAMES_A_WORD;

	return most < FRAMES_MAX ? most : FRAMES_MAX;
}

int cm_stacks_build(struct cm_snapshot *snapshot)
{
	const uint32_t words = snapshot->image->table[CM_TABLE_STACK].count;
	struct building building = {
		.snapshot = snapshot, .stack_room = 64, .most = count_most(words)};

	cm_intern_init(&snapshot->texts);
	cm_intern_init(&snapshot->keys);
	snapshot->stack = calloc(building.stack_room, sizeof(*snapshot->stack));
	snapshot->stack_at = calloc(words + (size_t)1, sizeof(*snapshot->stack_at));
	if (!snapshot->stack || !snapshot->stack_at ||
	    cm_module_map_init(&building.modules, snapshot->image))
		return -ENOMEM;
	snapshot->stacks = 1; /* the empty stack */
	cm_intern_init(&building.lists);
	cm_intern_init(&building.words);
	cm_stacks_each(snapshot->image, add_stack, &building);
	cm_intern_fini(&building.lists);
	cm_intern_fini(&building.words);
	cm_module_map_fini(&building.modules);
	free(building.word_frames);
	free(building.number);
	return building.failed ? -ENOMEM : 0;
}
