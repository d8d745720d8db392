/* SPDX-License-Identifier: MIT */
/*
 * `completion bash`: one function for complete(1). Its case labels come from the tables.
 */
#include "tools/verbs/completion.h"

#include <stdio.h>
#include <string.h>

/* The value of a setting follows its name at once. */
#define NO_BLANK "[[ $COMPREPLY != *: ]] || compopt -o nospace 2>/dev/null"

static void put_words(const struct cm_verb *verb)
{
	size_t i;

	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		(void)printf("--%s ", cm_opt_info(verb->opts[i])->name);
	(void)printf("--help");
}

/* Begins a pattern of "case" for an option that takes the next word, behind `verb`. False: it takes
 * none. */
static bool put_pattern(const struct cm_opt_info *info, const char *indent, const char *verb)
{
	if (!info->has_argument || info->argument_optional)
		return false;
	(void)printf("%s%s--%s", indent, verb, info->name);
	if (info->short_name)
		(void)printf(" | %s-%c", verb, info->short_name);
	(void)printf(") ");
	return true;
}

/* The arguments of the program are not ours: bash completes files by default. */
static void complete_bash_command(const struct cm_verb *verb)
{
	size_t i;

	(void)printf("\tif [[ $verb == %s ]]; then\n"
		     "\t\tfor ((i++; i < COMP_CWORD; i++)); do\n"
		     "\t\t\tcase ${COMP_WORDS[i]} in\n"
		     "\t\t\t--) ((COMP_CWORD == i + 1)) || return; words= ;;\n",
		     verb->name);
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		if (put_pattern(cm_opt_info(verb->opts[i]), "\t\t\t", ""))
			(void)printf("((i++)) ;;\n");
	(void)printf("\t\t\t-*) ;;\n\t\t\t*) return ;;\n\t\t\tesac\n\t\tdone\n\tfi\n");
}

/* Files are what bash completes by default. Lists grow behind the last comma. */
static void put_bash_value(const struct cm_opt_info *info)
{
	switch (cm_offer_of(info)) {
	case CM_OFFER_PIDS:
		(void)printf("COMPREPLY=($(compgen -W \"$(%s)\" -- \"$word\")); ", CM_LIST_PIDS);
		break;
	case CM_OFFER_COLUMNS:
		(void)printf("COMPREPLY=($(compgen -P \"$list\" -W \"$(%s \"$verb\"%s)\" -- "
			     "\"${word##*,}\")); ",
			     CM_PROGRAM, CM_LIST_COLUMNS);
		break;
	case CM_OFFER_OPTIONS:
		(void)printf("COMPREPLY=($(compgen -P \"$list\" -S : -W \"$(%s)\" -- "
			     "\"${word##*,}\")); " NO_BLANK "; ",
			     CM_LIST_OPTIONS);
		break;
	case CM_OFFER_WORDS:
		(void)printf("COMPREPLY=($(compgen -W '");
		cm_offer_words(info);
		(void)printf("' -- \"$word\")); ");
		break;
	case CM_OFFER_LIST:
		(void)printf("COMPREPLY=($(compgen -P \"$list\" -W '");
		cm_offer_words(info);
		(void)printf("' -- \"${word##*,}\")); ");
		break;
	case CM_OFFER_FILES:
	case CM_OFFER_NOTHING:
		break;
	}
}

/* An option of the same name may have other values in another verb, or none. */
static void complete_bash_values(const struct cm_verb *verb)
{
	char before[32];
	size_t i;

	(void)snprintf(before, sizeof(before), "%s:", verb->name);
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++) {
		const struct cm_opt_info *info = cm_opt_info(verb->opts[i]);

		if (!put_pattern(info, "\t", before))
			continue;
		put_bash_value(info);
		(void)printf("return ;;\n");
	}
}

static void complete_bash_arguments(const struct cm_verb *verbs, const struct cm_verb *verb)
{
	(void)printf("\t%s:*) words=", verb->name);
	if (cm_offer_pids(verb))
		(void)printf("$(%s)", CM_LIST_PIDS);
	if (cm_offer_settings(verb))
		(void)printf("; words+=\" $(%s | sed 's/$/:/')\"", CM_LIST_OPTIONS);
	if (cm_offer_choice(verb, "; ((COMP_CWORD > i + 1)) || words='"))
		(void)putchar('\'');
	if (cm_offer_verbs(verb))
		cm_offer_names(verbs, "; words='", "'");
	(void)printf("\n\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))%s ;;\n",
		     cm_offer_settings(verb) ? "; " NO_BLANK : "");
}

void cm_complete_bash(const struct cm_verb *verbs)
{
	const struct cm_verb *verb;

	(void)printf("# bash completion of %s; made by '%s completion bash'\n"
		     "_%s()\n{\n\tlocal word=${COMP_WORDS[COMP_CWORD]} words i verb=\n"
		     "\tlocal list=${word%%\"${word##*,}\"}\n"
		     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		     "\t\tcase ${COMP_WORDS[i]} in\n\t\t-*) ;;\n"
		     "\t\t*) verb=${COMP_WORDS[i]}; break ;;\n\t\tesac\n\tdone\n"
		     "\tcase $verb in\n\t'') words='",
		     CM_PROGRAM, CM_PROGRAM, CM_PROGRAM);
	cm_offer_names(verbs, "", " --help --version' ;;\n");
	for (verb = verbs; verb->name; verb++) {
		(void)printf("\t%s) words='", verb->name);
		put_words(verb);
		(void)printf("' ;;\n");
	}
	(void)printf("\tesac\n");
	for (verb = verbs; verb->name; verb++)
		if (verb->command)
			complete_bash_command(verb);
	(void)printf("\tcase $verb:${COMP_WORDS[COMP_CWORD-1]} in\n");
	for (verb = verbs; verb->name; verb++)
		complete_bash_values(verb);
	(void)printf("\tesac\n\tcase $verb:$word in\n"
		     "\t*:-* | :*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
		     "\trun:*) COMPREPLY=($(compgen -c -- \"$word\")) ;;\n");
	for (verb = verbs; verb->name; verb++)
		complete_bash_arguments(verbs, verb);
	(void)printf("\tesac\n}\ncomplete -o default -F _%s %s\n", CM_PROGRAM, CM_PROGRAM);
}
