/* SPDX-License-Identifier: MIT */
/*
 * `demo`: a made-up busy machine to try the other commands on, without a card.
 */
#include <stdio.h>

#include "tools/cli/exits.h"
#include "tools/demo/machine.h"
#include "tools/verbs/verbs.h"

static void print_advice(const struct cm_options *options, size_t processes)
{
	const char *dir = options->dir ? options->dir : "";
	const char *option = options->dir ? " --dir " : "";

	(void)printf("A made-up machine runs: %zu processes on 2 cards; none of it is real.\n"
		     "In another terminal:\n\n"
		     "  %s top%s%s\n"
		     "  %s ls%s%s\n"
		     "  %s show%s%s --map solver\n"
		     "  %s plot%s%s timeline solver -O timeline.html\n\n"
		     "Ctrl-C ends it.\n",
		     processes, CM_PROGRAM, option, dir, CM_PROGRAM, option, dir, CM_PROGRAM,
		     option, dir, CM_PROGRAM, option, dir);
	(void)fflush(stdout);
}

int cm_verb_demo(const struct cm_options *options)
{
	struct cm_demo_machine *machine;
	int exit;

	exit = cm_demo_machine_start(options, &machine);
	if (exit)
		return exit;
	print_advice(options, cm_demo_machine_running(machine));
	cm_demo_machine_wait(machine);
	cm_demo_machine_stop(machine);
	return CM_EXIT_OK;
}
