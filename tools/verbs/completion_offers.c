/* SPDX-License-Identifier: MIT */
/*
 * What completion offers for an option or a verb, as far as it is the same in all shells: taken
 * from the words of their arguments in the help.
 */
#include "tools/verbs/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tools/export/export.h"

/* Has the text words of a fixed set, such as "one|two", "[one|two]" or "one,two", before its first
 * blank? What stands for something else is in capitals. */
static bool is_choice(const char *text)
{
	return islower((unsigned char)text[*text == '[']);
}

enum cm_offer cm_offer_of(const struct cm_opt_info *info)
{
	if (is_choice(info->argument))
		return strchr(info->argument, ',') ? CM_OFFER_LIST : CM_OFFER_WORDS;
	if (!strcmp(info->name, "output") || !strcmp(info->name, "sort"))
		return CM_OFFER_COLUMNS;
	if (!strcmp(info->name, "conf"))
		return CM_OFFER_OPTIONS;
	if (!strcmp(info->argument, "PID|PATTERN"))
		return CM_OFFER_PIDS;
	if (!strcmp(info->argument, "FILE") || !strcmp(info->argument, "DIR"))
		return CM_OFFER_FILES;
	return strcmp(info->argument, "FORMAT") ? CM_OFFER_NOTHING : CM_OFFER_WORDS;
}

bool cm_offer_pids(const struct cm_verb *verb)
{
	return strstr(verb->args, "PID");
}

bool cm_offer_files(const struct cm_verb *verb)
{
	return strstr(verb->args, "FILE") || strstr(verb->args, "FIRST");
}

bool cm_offer_settings(const struct cm_verb *verb)
{
	return strstr(verb->args, "OPTION:VALUE");
}

bool cm_offer_verbs(const struct cm_verb *verb)
{
	return !strcmp(verb->args, "[COMMAND]");
}

/* Prints the words of a choice, separated by blanks. False: the text is none. */
static bool put_choice(const char *text, const char *before)
{
	const char *word = text + (*text == '[');
	size_t length = strcspn(word, " ]"), i;

	if (!is_choice(text))
		return false;
	(void)fputs(before, stdout);
	for (i = 0; i < length; i++)
		(void)putchar(strchr("|,", word[i]) ? ' ' : word[i]);
	return true;
}

void cm_offer_words(const struct cm_opt_info *info)
{
	size_t i;

	if (put_choice(info->argument, ""))
		return;
	for (i = 0; cm_formats[i].name; i++)
		(void)printf("%s%s", i ? " " : "", cm_formats[i].name);
}

bool cm_offer_has_choice(const struct cm_verb *verb)
{
	return is_choice(verb->args);
}

bool cm_offer_choice(const struct cm_verb *verb, const char *before)
{
	return put_choice(verb->args, before);
}

void cm_offer_names(const struct cm_verb *verbs, const char *before, const char *behind)
{
	const struct cm_verb *verb;

	(void)fputs(before, stdout);
	for (verb = verbs; verb->name; verb++)
		(void)printf("%s%s", verb == verbs ? "" : " ", verb->name);
	(void)fputs(behind, stdout);
}
