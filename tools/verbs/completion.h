/* SPDX-License-Identifier: MIT */
/*
 * The completion scripts of three shells, made of the tables of verbs and options: what a shell is
 * to offer is decided here, and how in a file for each. The functions print to standard output.
 */
#ifndef CM_TOOLS_VERBS_COMPLETION_H
#define CM_TOOLS_VERBS_COMPLETION_H

#include <stdbool.h>

#include "tools/cli/options.h"

/* The commands with which a shell lists processes, with their names if it can show them, the
 * options of a program, and, after a verb, columns. Some processes have several lines. */
#define CM_LIST_PIDS      CM_PROGRAM " ls --raw -n -o PID 2>/dev/null | sort -u"
#define CM_LIST_PROCESSES CM_PROGRAM " ls --raw -n -o PID,COMM 2>/dev/null | sort -u"
#define CM_LIST_OPTIONS   CM_PROGRAM " conf --raw -n -o OPTION 2>/dev/null"
#define CM_LIST_COLUMNS   " -o help 2>/dev/null | sed -n 's/^[* ] \\([^ ][^ ]*\\) .*/\\1/p'"

/* What a shell offers for the argument of an option. */
enum cm_offer {
	CM_OFFER_NOTHING,
	CM_OFFER_FILES,
	CM_OFFER_PIDS,
	CM_OFFER_COLUMNS, /* of the verb, separated by commas */
	CM_OFFER_OPTIONS, /* of the program, as key:value, separated by commas */
	CM_OFFER_WORDS,   /* one of cm_offer_words() */
	CM_OFFER_LIST,    /* some of these, separated by commas */
};

enum cm_offer cm_offer_of(const struct cm_opt_info *info);
void cm_offer_words(const struct cm_opt_info *info);

/* What the arguments of a verb may be. */
bool cm_offer_pids(const struct cm_verb *verb);
bool cm_offer_files(const struct cm_verb *verb);
bool cm_offer_verbs(const struct cm_verb *verb);
bool cm_offer_settings(const struct cm_verb *verb); /* options of the program, as key:value */
bool cm_offer_has_choice(const struct cm_verb *verb);
/* Prints `before` and the fixed words of the verb, separated by blanks. False, with nothing
 * printed: it has none. */
bool cm_offer_choice(const struct cm_verb *verb, const char *before);
/* Prints the names of all verbs, between two texts. */
void cm_offer_names(const struct cm_verb *verbs, const char *before, const char *behind);

void cm_complete_bash(const struct cm_verb *verbs);
void cm_complete_zsh(const struct cm_verb *verbs);
void cm_complete_fish(const struct cm_verb *verbs);

#endif
