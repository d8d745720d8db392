/* SPDX-License-Identifier: MIT */
/*
 * `completion`: scripts that complete command lines in bash, zsh and fish.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/exits.h"
#include "tools/export/export.h"
#include "tools/output/quote.h"
#include "tools/verbs/verbs.h"

/* The command with which a shell lists the processes. */
#define LIST_PIDS CM_PROGRAM " ls --raw -n -o PID 2>/dev/null"

/* Commands with which a shell lists columns, after a verb, and the options of a program. */
#define LIST_COLUMNS " -o help 2>/dev/null | sed -n 's/^[* ] \\([^ ][^ ]*\\) .*/\\1/p'"
#define LIST_OPTIONS CM_PROGRAM " conf --raw -n -o OPTION 2>/dev/null"

/* Does the option take columns, so that the verb lists them? */
static bool takes_columns(const struct cm_opt_info *info)
{
	return !strcmp(info->name, "output") || !strcmp(info->name, "sort");
}

static bool takes_options(const struct cm_opt_info *info)
{
	return !strcmp(info->name, "conf");
}

static bool takes_pid(const struct cm_verb *verb)
{
	return strstr(verb->args, "PID");
}

static void put_words(const struct cm_verb *verb)
{
	size_t i;

	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		(void)printf("--%s ", cm_opt_info(verb->opts[i])->name);
	(void)printf("--help");
}

/* Prints the words of "one|two|three" or "[one|two]", up to the first blank, separated by blanks.
 * False: the text is not a choice. */
static bool put_choice(const char *text, const char *before)
{
	size_t length, i;

	text += *text == '[';
	length = strcspn(text, " ]");
	if (!memchr(text, '|', length) || !islower((unsigned char)*text))
		return false;
	(void)fputs(before, stdout);
	for (i = 0; i < length; i++)
		(void)putchar(text[i] == '|' ? ' ' : text[i]);
	return true;
}

/* Prints the possible arguments of an option. False: they are not a fixed set of words. */
static bool put_argument_words(const struct cm_opt_info *info, const char *before)
{
	size_t i;

	if (strcmp(info->argument, "FORMAT"))
		return put_choice(info->argument, before);
	(void)fputs(before, stdout);
	for (i = 0; cm_formats[i].name; i++)
		(void)printf("%s%s", i ? " " : "", cm_formats[i].name);
	return true;
}

/* Begins a pattern of "case" for an option that takes the next word. False: it takes none. */
static bool put_pattern(const struct cm_opt_info *info, const char *before)
{
	if (!info->has_argument || info->argument_optional)
		return false;
	(void)printf("%s--%s", before, info->name);
	if (info->short_name)
		(void)printf(" | -%c", info->short_name);
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
		if (put_pattern(cm_opt_info(verb->opts[i]), "\t\t\t"))
			(void)printf("((i++)) ;;\n");
	(void)printf("\t\t\t-*) ;;\n\t\t\t*) return ;;\n\t\t\tesac\n\t\tdone\n\tfi\n");
}

/* The values of options: their words, or else files, which bash completes by default. */
static void complete_bash_values(void)
{
	int opt;

	(void)printf("\tcase ${COMP_WORDS[COMP_CWORD-1]} in\n");
	for (opt = 0; opt < CM_OPT_COUNT; opt++) {
		const struct cm_opt_info *info = cm_opt_info((enum cm_opt)opt);

		if (!put_pattern(info, "\t"))
			continue;
		if (!strcmp(info->argument, "PID|PATTERN"))
			(void)printf("COMPREPLY=($(compgen -W \"$(%s)\" -- \"$word\")); ",
				     LIST_PIDS);
		else if (takes_columns(info))
			(void)printf("COMPREPLY=($(compgen -P \"$list\" -W \"$(%s \"$verb\"%s)\" "
				     "-- \"${word##*,}\")); ",
				     CM_PROGRAM, LIST_COLUMNS);
		else if (takes_options(info))
			(void)printf("COMPREPLY=($(compgen -P \"$list\" -S : -W \"$(%s)\" -- "
				     "\"${word##*,}\")); ",
				     LIST_OPTIONS);
		else if (put_argument_words(info, "COMPREPLY=($(compgen -W '"))
			(void)printf("' -- \"$word\")); ");
		(void)printf("return ;;\n");
	}
	(void)printf("\tesac\n");
}

/* The names of all verbs, between two texts. */
static void put_verbs(const struct cm_verb *verbs, const char *before, const char *behind)
{
	const struct cm_verb *verb;

	(void)fputs(before, stdout);
	for (verb = verbs; verb->name; verb++)
		(void)printf("%s%s", verb == verbs ? "" : " ", verb->name);
	(void)fputs(behind, stdout);
}

static void complete_bash_arguments(const struct cm_verb *verbs, const struct cm_verb *verb)
{
	(void)printf("\t%s:*) words=", verb->name);
	if (takes_pid(verb))
		(void)printf("$(%s)", LIST_PIDS);
	if (put_choice(verb->args, "; ((COMP_CWORD > i + 1)) || words='"))
		(void)putchar('\'');
	if (!strcmp(verb->args, "[COMMAND]"))
		put_verbs(verbs, "; words='", "'");
	(void)printf("\n\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n");
}

static void complete_bash(const struct cm_verb *verbs)
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
	put_verbs(verbs, "", " --help --version' ;;\n");
	for (verb = verbs; verb->name; verb++) {
		(void)printf("\t%s) words='", verb->name);
		put_words(verb);
		(void)printf("' ;;\n");
	}
	(void)printf("\tesac\n");
	for (verb = verbs; verb->name; verb++)
		if (verb->command)
			complete_bash_command(verb);
	complete_bash_values();
	(void)printf("\tcase $verb:$word in\n"
		     "\t*:-* | :*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
		     "\trun:*) COMPREPLY=($(compgen -c -- \"$word\")) ;;\n");
	for (verb = verbs; verb->name; verb++)
		complete_bash_arguments(verbs, verb);
	(void)printf("\tesac\n}\ncomplete -o default -F _%s %s\n", CM_PROGRAM, CM_PROGRAM);
}

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

/* What zsh offers for the argument of an option. */
static const char *complete_argument(const struct cm_opt_info *info)
{
	if (!info->has_argument)
		return "";
	if (!strcmp(info->argument, "FILE") || !strcmp(info->argument, "DIR"))
		return ":_files";
	if (!strcmp(info->argument, "PID|PATTERN"))
		return ":($(" LIST_PIDS "))";
	return ":";
}

static void put_zsh_argument(const struct cm_verb *verb, const struct cm_opt_info *info)
{
	if (takes_columns(info)) {
		(void)printf(":($(%s %s -o help 2>/dev/null | cut -c3- | cut -d\" \" -f1))",
			     CM_PROGRAM, verb->name);
		return;
	}
	if (takes_options(info)) {
		(void)printf(":($(" LIST_OPTIONS "))");
		return;
	}
	if (put_argument_words(info, ":("))
		(void)putchar(')');
	else
		(void)fputs(complete_argument(info), stdout);
}

static void complete_zsh(const struct cm_verb *verbs)
{
	const struct cm_verb *verb;
	size_t i;

	(void)printf("#compdef %s\n# made by '%s completion zsh'\n_%s() {\n"
		     "  local -a verbs\n  verbs=(\n",
		     CM_PROGRAM, CM_PROGRAM, CM_PROGRAM);
	for (verb = verbs; verb->name; verb++) {
		(void)printf("    '%s:", verb->name);
		put_zsh_help(verb->summary);
		(void)printf("'\n");
	}
	(void)printf("  )\n  if ((CURRENT == 2)); then\n    _describe command verbs\n    return\n"
		     "  fi\n  case $words[2] in\n");
	for (verb = verbs; verb->name; verb++) {
		(void)printf("  %s) shift words; ((CURRENT--)); _arguments", verb->name);
		for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++) {
			const struct cm_opt_info *info = cm_opt_info(verb->opts[i]);

			(void)printf(" \\\n    '--%s%s[", info->name,
				     info->has_argument ? info->argument_optional ? "=-" : "="
							: "");
			put_zsh_help(info->help);
			(void)printf("]%s%s", info->has_argument ? ":" : "", info->argument);
			put_zsh_argument(verb, info);
			(void)putchar('\'');
		}
		if (put_choice(verb->args, " \\\n    '1:word:("))
			(void)printf(")'");
		(void)printf(" \\\n    '--help[print help]'%s ;;\n",
			     verb->command     ? " '*::command:_normal'"
			     : takes_pid(verb) ? " '*:process:($(" LIST_PIDS "))'"
					       : "");
	}
	(void)printf("  esac\n}\n_%s \"$@\"\n", CM_PROGRAM);
}

static void complete_fish(const struct cm_verb *verbs)
{
	const struct cm_verb *verb;
	size_t i;

	(void)printf("# fish completion of %s; made by '%s completion fish'\n", CM_PROGRAM,
		     CM_PROGRAM);
	for (verb = verbs; verb->name; verb++) {
		(void)printf("complete -c %s -n __fish_use_subcommand -f -a %s -d ", CM_PROGRAM,
			     verb->name);
		cm_quote_shell(stdout, verb->summary);
		(void)putchar('\n');
		if (takes_pid(verb))
			(void)printf("complete -c %s -n '__fish_seen_subcommand_from %s' -f "
				     "-a '(" LIST_PIDS ")'\n",
				     CM_PROGRAM, verb->name);
		if (put_choice(verb->args, "complete -c " CM_PROGRAM " -f -a '"))
			(void)printf("' -n '__fish_seen_subcommand_from %s'\n", verb->name);
		for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++) {
			const struct cm_opt_info *info = cm_opt_info(verb->opts[i]);

			(void)printf("complete -c %s -n '__fish_seen_subcommand_from %s' -l %s",
				     CM_PROGRAM, verb->name, info->name);
			if (info->short_name)
				(void)printf(" -s %c", info->short_name);
			if (info->has_argument && !info->argument_optional)
				(void)printf(" -r");
			if (takes_columns(info))
				(void)printf(" -f -a \"(%s %s -o help 2>/dev/null | cut -c3- | "
					     "cut -d' ' "
					     "-f1)\"",
					     CM_PROGRAM, verb->name);
			else if (takes_options(info))
				(void)printf(" -f -a \"(%s)\"", LIST_OPTIONS);
			else if (put_argument_words(info, " -f -a '"))
				(void)putchar('\'');
			(void)printf(" -d ");
			cm_quote_shell(stdout, info->help);
			(void)putchar('\n');
		}
	}
}

int cm_verb_completion(const struct cm_options *options)
{
	static const struct {
		const char *shell;
		void (*complete)(const struct cm_verb *verbs);
	} shells[] = {
		{"bash", complete_bash},
		{"zsh", complete_zsh},
		{"fish", complete_fish},
	};
	size_t i;

	for (i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(options->args[0], shells[i].shell))
			continue;
		shells[i].complete(options->verbs);
		return CM_EXIT_OK;
	}
	return cm_fail(CM_EXIT_USAGE, "unknown shell '%s', want bash, zsh or fish",
		       options->args[0]);
}
