/* SPDX-License-Identifier: MIT */
#include "stats/option_value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stats/text.h"
#include "stats/units.h"

#define MIB_SHIFT 20
#define NANO      1000000000ull

/* Takes the digits at *text. -EINVAL: none; -ERANGE: more than fit. */
static int take_number(const char **text, uint64_t *ret_number)
{
	const char *p = *text;
	uint64_t number = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*p - '0'), &number))
			return -ERANGE;
	*text = p;
	*ret_number = number;
	return 0;
}

/* Takes K, M, G or T, alone or as KB, Ki, KiB, and the like. -EINVAL: another suffix. */
static int take_unit(const char **text, unsigned *ret_shift)
{
	static const char suffixes[] = "KMGT";
	const char *p = *text, *suffix;

	suffix = *p ? strchr(suffixes, *p) : NULL;
	if (!suffix)
		return -EINVAL;
	p++;
	if (*p == 'i')
		p++;
	if (*p == 'B')
		p++;
	*text = p;
	*ret_shift = 10 * (unsigned)(suffix - suffixes + 1);
	return 0;
}

/* A whole number with an optional unit; without one it counts units of 2^shift. */
static int parse_size(const char *text, unsigned shift, uint64_t *ret_number)
{
	uint64_t number;
	unsigned unit = shift;
	int err;

	err = take_number(&text, &number);
	if (err)
		return err;
	if (*text && (take_unit(&text, &unit) || *text))
		return -EINVAL;
	if (unit && number >> (64 - unit))
		return -ERANGE;
	number <<= unit;
	if (number & ((UINT64_C(1) << shift) - 1))
		return -EINVAL;
	*ret_number = number >> shift;
	return 0;
}

/* As strtod reads it, which also knows ".8", but for exponents and the locale's own point. */
static int parse_fraction(const char *text, double *ret_fraction)
{
	char typed[40];
	uint64_t nano;
	int err;

	if (snprintf(typed, sizeof(typed), "0%s", text) >= (int)sizeof(typed))
		return -EINVAL;
	err = cm_decimal_parse(typed, 0, &nano);
	if (!err)
		*ret_fraction = (double)nano / NANO;
	return err;
}

static bool is_power_of_two(uint64_t number)
{
	return number && !(number & (number - 1));
}

static int take_division(const char **text, uint32_t *ret_division)
{
	uint64_t number;

	int err = take_number(text, &number);

	if (err)
		return err;
	if (number > UINT32_MAX || (number && !is_power_of_two(number)))
		return -ERANGE;
	*ret_division = (uint32_t)number;
	return 0;
}

/* Takes one "boundary:division" of a list. *last is the slot of the latest boundary, -1: none. */
static int take_boundary(const char **text, uint32_t *divisions, int *last)
{
	uint64_t boundary = 0;
	uint32_t division;
	bool rest;
	int slot, i, err;

	rest = **text == '>';
	if (rest)
		(*text)++;
	else if (take_number(text, &boundary))
		return -EINVAL;
	if (*(*text)++ != ':')
		return -EINVAL;
	err = take_division(text, &division);
	if (err)
		return err;
	if (rest) {
		/* PyTorch's rule, which leaves out the first slot if no boundary was given. */
		for (i = (*last < 0 ? 0 : *last) + 1; i < CM_DIVISION_SLOTS; i++)
			divisions[i] = division;
		return 0;
	}
	if (!is_power_of_two(boundary))
		return -ERANGE;
	slot = 63 - __builtin_clzll(boundary);
	if (slot >= CM_DIVISION_SLOTS)
		slot = CM_DIVISION_SLOTS - 1;
	for (i = *last < 0 ? 0 : slot; i <= slot; i++)
		divisions[i] = division;
	*last = slot;
	return 0;
}

/* A list may have 0 for a range of sizes; the scalar, as in PyTorch, must round. */
static int parse_scalar(const char *text, uint32_t *divisions)
{
	int err, i;

	err = take_division(&text, &divisions[0]);
	if (err || *text)
		return err ? err : -EINVAL;
	for (i = 1; i < CM_DIVISION_SLOTS; i++)
		divisions[i] = divisions[0];
	return divisions[0] ? 0 : -ERANGE;
}

/* "[256:1,512:2,>:8]": divisions by boundaries in MiB. */
static int parse_list(const char *text, uint32_t *divisions)
{
	int last = -1, err;

	do {
		text++;
		err = take_boundary(&text, divisions, &last);
		if (err)
			return err;
	} while (*text == ',');
	return strcmp(text, "]") ? -EINVAL : 0;
}

static int parse_flag(const char *text, bool *ret_flag)
{
	static const struct {
		const char *word;
		bool flag;
	} words[] = {
		{"on", true},   {"True", true},   {"true", true},   {"1", true},
		{"off", false}, {"False", false}, {"false", false}, {"0", false},
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(text, words[i].word)) {
			*ret_flag = words[i].flag;
			return 0;
		}
	}
	return -EINVAL;
}

/* The words of a CHOICE, one a call: *words moves on, a length of 0 is the end. */
static size_t next_word(const char **words, const char **ret_word)
{
	size_t length = strcspn(*words, "|");

	*ret_word = *words;
	*words += length + ((*words)[length] == '|');
	return length;
}

int cm_choice_parse(const char *words, const char *text, uint32_t *ret_choice)
{
	const char *word;
	uint32_t choice = 0;
	size_t length;

	while ((length = next_word(&words, &word))) {
		if (strlen(text) == length && !memcmp(text, word, length)) {
			*ret_choice = choice;
			return 0;
		}
		choice++;
	}
	return -EINVAL;
}

static int parse_path(const char *text, char *ret_path)
{
	if (*text != '/' || strlen(text) >= CM_PATH_BYTES)
		return -EINVAL;
	memcpy(ret_path, text, strlen(text) + 1);
	return 0;
}

/* The word that stands for no limit, or for off: a value that no number of the range can say. */
static void set_word(const struct cm_option_info *info, union cm_option_value *value)
{
	if (info->type == CM_TYPE_MIB || info->type == CM_TYPE_SEGMENT_MIB)
		value->number = CM_UNLIMITED;
}

static bool is_word(const struct cm_option_info *info, const union cm_option_value *value)
{
	union cm_option_value word = {0};

	set_word(info, &word);
	return *info->words && !memcmp(value, &word, info->bytes);
}

static double least(const struct cm_option_info *info, uint64_t segment_mib)
{
	return info->type == CM_TYPE_SEGMENT_MIB ? (double)segment_mib : info->min;
}

static int parse_typed(const struct cm_option_info *info, const char *text,
		       union cm_option_value *value)
{
	switch (info->type) {
	case CM_TYPE_BOOL:
		return parse_flag(text, &value->flag);
	case CM_TYPE_CHOICE:
		return cm_choice_parse(info->words, text, &value->choice);
	case CM_TYPE_NUMBER:
		return parse_size(text, 0, &value->number);
	case CM_TYPE_MIB:
	case CM_TYPE_SEGMENT_MIB:
		return parse_size(text, MIB_SHIFT, &value->number);
	case CM_TYPE_FRACTION:
	case CM_TYPE_OPEN_FRACTION:
		return parse_fraction(text, &value->fraction);
	case CM_TYPE_DIVISIONS:
		return *text == '[' ? parse_list(text, value->divisions)
				    : parse_scalar(text, value->divisions);
	case CM_TYPE_PATH:
		return parse_path(text, value->path);
	}
	return -EINVAL;
}

static bool is_in_range(const struct cm_option_info *info, const union cm_option_value *value,
			uint64_t segment_mib)
{
	double number;

	switch (info->type) {
	case CM_TYPE_NUMBER:
	case CM_TYPE_MIB:
	case CM_TYPE_SEGMENT_MIB:
		number = (double)value->number;
		return number >= least(info, segment_mib) && number <= info->max;
	case CM_TYPE_FRACTION:
		return value->fraction >= info->min && value->fraction <= info->max;
	case CM_TYPE_OPEN_FRACTION:
		return value->fraction > info->min && value->fraction < info->max;
	case CM_TYPE_BOOL:
	case CM_TYPE_CHOICE:
	case CM_TYPE_DIVISIONS:
	case CM_TYPE_PATH:
		break;
	}
	return true;
}

int cm_option_value_parse(const struct cm_option_info *info, const char *text, uint64_t segment_mib,
			  union cm_option_value *ret_value)
{
	union cm_option_value value = {0};
	int err;

	if (info->type != CM_TYPE_CHOICE && *info->words && !strcmp(text, info->words)) {
		set_word(info, &value);
	} else {
		err = parse_typed(info, text, &value);
		if (err)
			return err;
		if (!is_in_range(info, &value, segment_mib))
			return -ERANGE;
	}
	*ret_value = value;
	return 0;
}

void cm_option_value_format_want(const struct cm_option_info *info, uint64_t segment_mib,
				 char *text, size_t bytes)
{
	size_t used = 0;

	if (*info->words)
		used = cm_text_append(text, bytes, used, "%s%s", info->words,
				      info->type == CM_TYPE_CHOICE ? "" : ", or ");
	switch (info->type) {
	case CM_TYPE_BOOL:
		(void)cm_text_append(text, bytes, used, "on or off");
		break;
	case CM_TYPE_CHOICE:
		break;
	case CM_TYPE_NUMBER:
	case CM_TYPE_FRACTION:
		(void)cm_text_append(text, bytes, used, "%.0f to %.0f", info->min, info->max);
		break;
	case CM_TYPE_MIB:
	case CM_TYPE_SEGMENT_MIB:
		(void)cm_text_append(text, bytes, used, "%.0f to %.0f MiB",
				     least(info, segment_mib), info->max);
		break;
	case CM_TYPE_OPEN_FRACTION:
		(void)cm_text_append(text, bytes, used, "more than %.0f and less than %.0f",
				     info->min, info->max);
		break;
	case CM_TYPE_DIVISIONS:
		(void)cm_text_append(text, bytes, used,
				     "a power of two, or a list like [256:1,512:2,>:8]");
		break;
	case CM_TYPE_PATH:
		(void)cm_text_append(text, bytes, used, "an absolute path of at most %d characters",
				     CM_PATH_BYTES - 1);
		break;
	}
}

static void format_number(uint64_t number, char *text, size_t bytes)
{
	static const char *const units[] = {"", "Ki", "Mi", "Gi"};
	unsigned unit = 0;

	while (unit < 3 && number && !(number & 1023)) {
		number >>= 10;
		unit++;
	}
	(void)snprintf(text, bytes, "%llu%s", (unsigned long long)number, units[unit]);
}

/* Only whole numbers are printed, so that the program's locale has no say. */
static void format_fraction(double fraction, char *text, size_t bytes)
{
	const uint64_t nano = (uint64_t)(fraction * NANO + 0.5);
	char digits[24];
	size_t n;

	/* The 1 before the digits keeps their leading zeros. */
	(void)snprintf(digits, sizeof(digits), "%llu", NANO + (unsigned long long)(nano % NANO));
	for (n = strlen(digits); n > 1 && digits[n - 1] == '0'; n--)
		digits[n - 1] = '\0';
	(void)snprintf(text, bytes, "%llu%s%s", (unsigned long long)(nano / NANO), n > 1 ? "." : "",
		       digits + 1);
}

/* The shortest list that reads back as the same slots, or the scalar. */
static void format_divisions(const uint32_t *divisions, char *text, size_t bytes)
{
	const int last = CM_DIVISION_SLOTS - 1;
	int first = 0, tail = last, slot;
	size_t used = 0;

	while (first < last && divisions[first + 1] == divisions[0])
		first++;
	while (tail > 0 && divisions[tail - 1] == divisions[last])
		tail--;
	if (first == last) {
		(void)snprintf(text, bytes, "%u", divisions[0]);
		return;
	}
	for (slot = first; slot < tail; slot++)
		used = cm_text_append(text, bytes, used, "%s%u:%u", slot == first ? "[" : ",",
				      1u << slot, divisions[slot]);
	(void)cm_text_append(text, bytes, used, ",>:%u]", divisions[last]);
}

void cm_option_value_format(const struct cm_option_info *info, const union cm_option_value *value,
			    char *text, size_t bytes)
{
	const char *words = info->words, *word = "";
	size_t length = 0;
	uint32_t i;

	if (info->type != CM_TYPE_CHOICE && is_word(info, value)) {
		(void)snprintf(text, bytes, "%s", info->words);
		return;
	}
	switch (info->type) {
	case CM_TYPE_BOOL:
		(void)snprintf(text, bytes, "%s", value->flag ? "on" : "off");
		break;
	case CM_TYPE_CHOICE:
		for (i = 0; i <= value->choice; i++)
			length = next_word(&words, &word);
		(void)snprintf(text, bytes, "%.*s", (int)length, word);
		break;
	case CM_TYPE_NUMBER:
		format_number(value->number, text, bytes);
		break;
	case CM_TYPE_MIB:
	case CM_TYPE_SEGMENT_MIB:
		(void)snprintf(text, bytes, "%llu", (unsigned long long)value->number);
		break;
	case CM_TYPE_FRACTION:
	case CM_TYPE_OPEN_FRACTION:
		format_fraction(value->fraction, text, bytes);
		break;
	case CM_TYPE_DIVISIONS:
		format_divisions(value->divisions, text, bytes);
		break;
	case CM_TYPE_PATH:
		(void)snprintf(text, bytes, "%s", value->path);
		break;
	}
}
