/* SPDX-License-Identifier: MIT */
#include "kernel_text.h"

#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { WORDS = 2 + SIM_KERNEL_PARAMS, WORD_BYTES = SIM_KERNEL_NAME };

/* The words of a line. */
struct line {
	unsigned count;
	char words[WORDS][WORD_BYTES];
};

bool sim_kernel_text_is(const void *image)
{
	return strncmp(image, SIM_MODULE_TEXT, sizeof(SIM_MODULE_TEXT) - 1) == 0;
}

/* The next line that says something; "#" begins a remark. False at the end, or when too long. */
static bool read_line(struct sim_kernel_text *text, struct line *ret)
{
	ret->count = 0;
	while (*text->at && !ret->count) {
		size_t length = strcspn(text->at, "\n");
		const char *at = text->at;
		const char *end = at + strcspn(at, "#\n");

		text->line++;
		while (at < end) {
			size_t word = strcspn(at, " \t\n#");

			if (word >= WORD_BYTES || (word && ret->count == WORDS))
				return false;
			if (word) {
				memcpy(ret->words[ret->count], at, word);
				ret->words[ret->count++][word] = '\0';
			}
			at += word + (at + word < end);
		}
		text->at += length + (text->at[length] == '\n');
	}
	return ret->count != 0;
}

/* "p3". */
static bool parse_param(const char *word, const struct sim_kernel *kernel, int *ret_param)
{
	char *end;
	unsigned long number;

	if (word[0] != 'p' || word[1] < '0' || word[1] > '9')
		return false;
	number = strtoul(word + 1, &end, 10);
	if (*end || number >= kernel->param_count)
		return false;
	*ret_param = (int)number;
	return true;
}

/* "4096", "p3" or "p3*4". */
static bool parse_amount(const char *word, const struct sim_kernel *kernel,
			 struct sim_amount *ret_amount)
{
	char param[WORD_BYTES];
	const char *star = strchr(word, '*');
	const char *factor = star ? star + 1 : word;
	char *end;

	*ret_amount = (struct sim_amount){.param = -1, .factor = 1};
	if (word[0] == 'p') {
		size_t length = star ? (size_t)(star - word) : strlen(word);

		memcpy(param, word, length);
		param[length] = '\0';
		if (!parse_param(param, kernel, &ret_amount->param))
			return false;
		if (!star)
			return true;
	}
	ret_amount->factor = strtoull(factor, &end, 10);
	return end != factor && !*end;
}

static bool parse_params(const struct line *line, struct sim_kernel *kernel)
{
	kernel->param_count = 0;
	for (unsigned i = 1; i < line->count; i++) {
		const char *type = line->words[i];

		if (kernel->param_count == SIM_KERNEL_PARAMS)
			return false;
		if (strcmp(type, "ptr") && strcmp(type, "u64") && strcmp(type, "u32") &&
		    strcmp(type, "f32"))
			return false;
		kernel->param_bytes[kernel->param_count++] = type[1] == '3' ? 4 : 8;
	}
	return true;
}

/* time DURATION [DURATION AMOUNT]: the second for each of the amount. */
static bool parse_time(const struct line *line, struct sim_kernel *kernel)
{
	uint64_t each;

	if (line->count < 2 || !sim_plan_parse_time(line->words[1], &kernel->time_ns))
		return false;
	if (line->count == 2)
		return true;
	if (line->count != 4 || !sim_plan_parse_time(line->words[2], &each) ||
	    !parse_amount(line->words[3], kernel, &kernel->more_ns))
		return false;
	kernel->more_ns.factor *= each;
	return true;
}

static bool parse_touch(const struct line *line, struct sim_kernel *kernel)
{
	struct sim_kernel_touch *touch = &kernel->touches[kernel->touch_count];

	if (line->count != 3 || kernel->touch_count == SIM_KERNEL_TOUCHES ||
	    !parse_param(line->words[1], kernel, &touch->param) ||
	    !parse_amount(line->words[2], kernel, &touch->bytes))
		return false;
	touch->write = strcmp(line->words[0], "writes") == 0;
	kernel->touch_count++;
	return true;
}

static bool parse_do(const struct line *line, struct sim_kernel *kernel)
{
	static const struct {
		const char *name;
		enum sim_kernel_do what;
		unsigned args;
	} known[] = {
		{"fill", SIM_KERNEL_FILL, 3},
		{"copy", SIM_KERNEL_COPY, 3},
		{"add", SIM_KERNEL_ADD, 4},
		{"scale", SIM_KERNEL_SCALE, 4},
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (line->count != known[i].args + 2 || strcmp(line->words[1], known[i].name))
			continue;
		kernel->what = known[i].what;
		for (unsigned arg = 0; arg < known[i].args; arg++) {
			if (!parse_param(line->words[arg + 2], kernel, &kernel->args[arg]))
				return false;
		}
		return true;
	}
	return false;
}

static bool parse_property(const struct line *line, struct sim_kernel *kernel)
{
	const char *word = line->words[0];

	if (strcmp(word, "params") == 0)
		return parse_params(line, kernel);
	if (strcmp(word, "time") == 0)
		return parse_time(line, kernel);
	if (strcmp(word, "reads") == 0 || strcmp(word, "writes") == 0)
		return parse_touch(line, kernel);
	if (strcmp(word, "do") == 0)
		return parse_do(line, kernel);
	if (strcmp(word, "until") == 0)
		return line->count == 2 && parse_param(line->words[1], kernel, &kernel->until);
	return false;
}

static enum sim_declared read_kernel(struct sim_kernel_text *text, struct sim_kernel *kernel)
{
	struct line line;

	while (read_line(text, &line)) {
		if (line.count == 1 && strcmp(line.words[0], "end") == 0)
			return SIM_DECLARES_KERNEL;
		if (!parse_property(&line, kernel))
			return SIM_TEXT_BAD;
	}
	return SIM_TEXT_BAD;
}

enum sim_declared sim_kernel_text_next(struct sim_kernel_text *text, struct sim_kernel *ret_kernel,
				       uint64_t *ret_bytes)
{
	struct line line;
	char *end;

	do {
		if (!read_line(text, &line))
			return *text->at ? SIM_TEXT_BAD : SIM_DECLARES_END;
	} while (strcmp(line.words[0], SIM_MODULE_TEXT) == 0);
	*ret_kernel = (struct sim_kernel){
		.time_ns = sim_plan.kernel_ns,
		.more_ns = {.param = -1},
		.until = -1,
	};
	if (line.count >= 2)
		strcpy(ret_kernel->name, line.words[1]);
	if (line.count == 2 && strcmp(line.words[0], "kernel") == 0)
		return read_kernel(text, ret_kernel);
	if (line.count != 3 || strcmp(line.words[0], "global"))
		return SIM_TEXT_BAD;
	*ret_bytes = strtoull(line.words[2], &end, 10);
	return *ret_bytes && !*end ? SIM_DECLARES_GLOBAL : SIM_TEXT_BAD;
}
