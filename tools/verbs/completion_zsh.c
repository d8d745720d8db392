/* SPDX-License-Identifier: MIT */
/*
 * `completion zsh`: one function, which has a call of _arguments for each verb.
 */
#include "tools/verbs/completion.h"

#include <stdio.h>
#include <string.h>

/* _arguments interprets ':' and brackets in a description: escape them. */
static void put_zsh_help(const char *text)
{
	for (; *text; text++) {
		if (strchr(":[]\\", *text))
			(void)putchar('\\');
		if (*text == '\'')
			(void)fputs("'\\'", stdout);
		(void)putchar(*text);
	}
}

static void put_zsh_functions(const struct cm_verb *verbs)
{
	const struct cm_verb *verb;

	(void)printf("_%s_verbs() {\n  local -a verbs\n  verbs=(\n", CM_PROGRAM);
	for (verb = verbs; verb->name; verb++) {
		(void)printf("    '%s:", verb->name);
		put_zsh_help(verb->summary);
		(void)printf("'\n");
	}
	(void)printf("  )\n  _describe command verbs\n}\n"
		     "_%s_pids() {\n  local -a found\n"
		     "  found=(${${(f)\"$(%s)\"}/ /:})\n  _describe process found\n}\n",
		     CM_PROGRAM, CM_LIST_PROCESSES);
	(void)printf("_%s_columns() { _values -s , column $(%s $@[-1]%s) }\n", CM_PROGRAM,
		     CM_PROGRAM, CM_LIST_COLUMNS);
	(void)printf("_%s_options() { _values -s , -S : option ${^$(%s)}':value:' }\n"
		     "_%s_sources() { _alternative 'pids:process:_%s_pids' 'files:file:_files' }\n",
		     CM_PROGRAM, CM_LIST_OPTIONS, CM_PROGRAM, CM_PROGRAM);
}

/* The argument of an option, and what zsh offers for it. */
static void put_zsh_argument(const struct cm_verb *verb, const struct cm_opt_info *info)
{
	(void)putchar(':');
	put_zsh_help(info->argument);
	switch (cm_offer_of(info)) {
	case CM_OFFER_FILES:
		(void)printf(":_files%s", strcmp(info->argument, "DIR") != 0 ? "" : " -/");
		break;
	case CM_OFFER_PIDS:
		(void)printf(":_%s_pids", CM_PROGRAM);
		break;
	case CM_OFFER_COLUMNS:
		(void)printf(":_%s_columns %s", CM_PROGRAM, verb->name);
		break;
	case CM_OFFER_OPTIONS:
		(void)printf(":_%s_options", CM_PROGRAM);
		break;
	case CM_OFFER_WORDS:
		(void)printf(":(");
		cm_offer_words(info);
		(void)putchar(')');
		break;
	case CM_OFFER_LIST:
		(void)printf(":_values -s , word ");
		cm_offer_words(info);
		break;
	case CM_OFFER_NOTHING:
		(void)putchar(':');
		break;
	}
}

static void put_zsh_option(const struct cm_verb *verb, const struct cm_opt_info *info)
{
	const char *word = !info->has_argument ? "" : info->argument_optional ? "=-" : "=";
	const char *letter = !info->has_argument ? "" : info->argument_optional ? "-" : "+";

	(void)printf(" \\\n    ");
	if (info->short_name)
		(void)printf("'*'{-%c%s,--%s%s}'[", info->short_name, letter, info->name, word);
	else
		(void)printf("'*--%s%s[", info->name, word);
	put_zsh_help(info->help);
	(void)putchar(']');
	if (info->has_argument)
		put_zsh_argument(verb, info);
	(void)putchar('\'');
}

static void complete_zsh_verb(const struct cm_verb *verb)
{
	size_t i;

	(void)printf("  %s) shift words; ((CURRENT--)); _arguments -S%s", verb->name,
		     verb->command ? " -A '-*'" : "");
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		put_zsh_option(verb, cm_opt_info(verb->opts[i]));
	if (cm_offer_has_choice(verb) && *verb->args == '[') {
		(void)cm_offer_choice(verb, " \\\n    '1: :{_alternative \"words:word:(");
		(void)printf(")\" \"sources:source:_%s_sources\"}'", CM_PROGRAM);
	} else if (cm_offer_choice(verb, " \\\n    '1:word:(")) {
		(void)printf(")'");
	}
	(void)printf(" \\\n    '--help[print help]'");
	if (verb->command)
		(void)printf(" '*::command:_normal'");
	else if (cm_offer_files(verb) && cm_offer_pids(verb))
		(void)printf(" '*:source:_%s_sources'", CM_PROGRAM);
	else if (cm_offer_settings(verb))
		(void)printf(" '*: :_alternative \"pids:process:_%s_pids\" "
			     "\"settings:setting:_%s_options\"'",
			     CM_PROGRAM, CM_PROGRAM);
	else if (cm_offer_pids(verb))
		(void)printf(" '*:process:_%s_pids'", CM_PROGRAM);
	else if (cm_offer_files(verb))
		(void)printf(" '*:file:_files'");
	else if (cm_offer_verbs(verb))
		(void)printf(" '1:command:_%s_verbs'", CM_PROGRAM);
	(void)printf(" ;;\n");
}

void cm_complete_zsh(const struct cm_verb *verbs)
{
	const struct cm_verb *verb;

	(void)printf("#compdef %s\n# made by '%s completion zsh'\n", CM_PROGRAM, CM_PROGRAM);
	put_zsh_functions(verbs);
	(void)printf("_%s() {\n  if ((CURRENT == 2)); then\n    _%s_verbs\n    return\n  fi\n"
		     "  case $words[2] in\n",
		     CM_PROGRAM, CM_PROGRAM);
	for (verb = verbs; verb->name; verb++)
		complete_zsh_verb(verb);
	(void)printf("  esac\n}\n_%s \"$@\"\n", CM_PROGRAM);
}
