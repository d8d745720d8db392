/* SPDX-License-Identifier: MIT */
/*
 * `completion fish`: a line for each verb and option, with a condition that says when it applies.
 */
#include "tools/verbs/completion.h"

#include <stdio.h>
#include <string.h>

#include "tools/output/quote.h"

/* The words of the program that a verb starts; no success where they have not begun. */
static void put_fish_program(const struct cm_verb *verbs)
{
	const struct cm_verb *verb;
	size_t i;

	(void)printf("function __%s_program\n    set -l words (commandline -opc)\n"
		     "    set -l verb $words[2]\n    set -l takes\n    switch \"$verb\"\n",
		     CM_PROGRAM);
	for (verb = verbs; verb->name; verb++) {
		if (!verb->command)
			continue;
		(void)printf("    case %s\n        set takes", verb->name);
		for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++) {
			const struct cm_opt_info *info = cm_opt_info(verb->opts[i]);

			if (!info->has_argument || info->argument_optional)
				continue;
			(void)printf(" --%s", info->name);
			if (info->short_name)
				(void)printf(" -%c", info->short_name);
		}
		(void)putchar('\n');
	}
	(void)printf("    case '*'\n        return 1\n    end\n    set -e words[1 2]\n"
		     "    while set -q words[1]\n        set -l word $words[1]\n"
		     "        if not string match -q -- '-*' $word\n"
		     "            string join \\n -- $words\n            return 0\n        end\n"
		     "        set -e words[1]\n        if test $word = --\n"
		     "            string join \\n -- $words\n            return 0\n        end\n"
		     "        if contains -- $word $takes; and set -q words[1]\n"
		     "            set -e words[1]\n        end\n    end\n    return 1\nend\n");
}

/* Functions: is this the verb, and are its options still to come? What the program to start offers;
 * its name does not begin with '-'. The values of a list behind what it has; columns with their
 * help. */
static void put_fish_functions(const struct cm_verb *verbs)
{
	put_fish_program(verbs);
	(void)printf("function __%s_in\n    set -l words (commandline -opc)\n"
		     "    test \"$words[2]\" = $argv[1]; and not __%s_program >/dev/null\nend\n",
		     CM_PROGRAM, CM_PROGRAM);
	(void)printf("function __%s_complete_program\n    set -l words (__%s_program) "
		     "(commandline -ct)\n"
		     "    string match -q -- '-*' $words[1]; or complete -C \"$words\"\nend\n",
		     CM_PROGRAM, CM_PROGRAM);
	(void)printf("function __%s_list\n    set -l before (commandline -ct | string replace -r "
		     "'^--[^=]*=' '' | string replace -r '[^,]*$' '')\n"
		     "    printf '%%s\\n' $before$argv\nend\n",
		     CM_PROGRAM);
	(void)printf("function __%s_columns\n    __%s_list (%s $argv[1] -o help 2>/dev/null | "
		     "string replace -rf '^[* ] (\\S+) +\\S+ +(.*)' '$1\\t$2')\nend\n",
		     CM_PROGRAM, CM_PROGRAM, CM_PROGRAM);
	(void)printf("function __%s_options\n    __%s_list (%s | string replace -r '$' ':')\nend\n",
		     CM_PROGRAM, CM_PROGRAM, CM_LIST_OPTIONS);
	(void)printf("function __%s_pids\n    %s | string replace ' ' \\t\nend\n", CM_PROGRAM,
		     CM_LIST_PROCESSES);
}

static void put_fish_argument(const struct cm_verb *verb, const struct cm_opt_info *info)
{
	switch (cm_offer_of(info)) {
	case CM_OFFER_COLUMNS:
		(void)printf(" -f -a '(__%s_columns %s)'", CM_PROGRAM, verb->name);
		break;
	case CM_OFFER_OPTIONS:
		(void)printf(" -f -a '(__%s_options)'", CM_PROGRAM);
		break;
	case CM_OFFER_PIDS:
		(void)printf(" -f -a '(__%s_pids)'", CM_PROGRAM);
		break;
	case CM_OFFER_WORDS:
		(void)printf(" -f -a '");
		cm_offer_words(info);
		(void)putchar('\'');
		break;
	case CM_OFFER_LIST:
		(void)printf(" -f -a '(__%s_list ", CM_PROGRAM);
		cm_offer_words(info);
		(void)printf(")'");
		break;
	case CM_OFFER_NOTHING:
		if (info->has_argument)
			(void)printf(" -f");
		break;
	case CM_OFFER_FILES:
		break;
	}
}

/* Begins a line about a verb. */
static void put_fish_line(const struct cm_verb *verb)
{
	(void)printf("complete -c %s -n '__%s_in %s'", CM_PROGRAM, CM_PROGRAM, verb->name);
}

static void complete_fish_verb(const struct cm_verb *verbs, const struct cm_verb *verb)
{
	size_t i;

	if (cm_offer_pids(verb)) {
		put_fish_line(verb);
		(void)printf("%s -a '(__%s_pids)'\n",
			     cm_offer_files(verb) || verb->command ? "" : " -f", CM_PROGRAM);
	} else if (!cm_offer_files(verb) && !verb->command) {
		put_fish_line(verb);
		(void)printf(" -f\n");
	}
	if (verb->command) {
		put_fish_line(verb);
		(void)printf(" -a '(__%s_complete_program)'\n", CM_PROGRAM);
	}
	if (cm_offer_settings(verb)) {
		put_fish_line(verb);
		(void)printf(" -a '(__%s_options)'\n", CM_PROGRAM);
	}
	if (cm_offer_has_choice(verb)) {
		put_fish_line(verb);
		(void)cm_offer_choice(verb, " -a '");
		(void)printf("'\n");
	}
	if (cm_offer_verbs(verb)) {
		put_fish_line(verb);
		cm_offer_names(verbs, " -a '", "'\n");
	}
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++) {
		const struct cm_opt_info *info = cm_opt_info(verb->opts[i]);

		put_fish_line(verb);
		(void)printf(" -l %s", info->name);
		if (info->short_name)
			(void)printf(" -s %c", info->short_name);
		if (info->has_argument && !info->argument_optional)
			(void)printf(" -r");
		put_fish_argument(verb, info);
		(void)printf(" -d ");
		cm_quote_shell(stdout, info->help);
		(void)putchar('\n');
	}
}

void cm_complete_fish(const struct cm_verb *verbs)
{
	const struct cm_verb *verb;

	(void)printf("# fish completion of %s; made by '%s completion fish'\n", CM_PROGRAM,
		     CM_PROGRAM);
	put_fish_functions(verbs);
	(void)printf("complete -c %s -n __%s_program -x -a '(__%s_complete_program)'\n", CM_PROGRAM,
		     CM_PROGRAM, CM_PROGRAM);
	for (verb = verbs; verb->name; verb++) {
		(void)printf("complete -c %s -n __fish_use_subcommand -f -a %s -d ", CM_PROGRAM,
			     verb->name);
		cm_quote_shell(stdout, verb->summary);
		(void)putchar('\n');
		complete_fish_verb(verbs, verb);
	}
}
