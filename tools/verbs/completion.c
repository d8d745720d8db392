/* SPDX-License-Identifier: MIT */
/*
 * `completion`: scripts that complete command lines in bash, zsh and fish.
 */
#include "tools/verbs/completion.h"

#include <string.h>

#include "tools/cli/exits.h"
#include "tools/verbs/verbs.h"

int cm_verb_completion(const struct cm_options *options)
{
	static const struct {
		const char *shell;
		void (*complete)(const struct cm_verb *verbs);
	} shells[] = {
		{"bash", cm_complete_bash},
		{"zsh", cm_complete_zsh},
		{"fish", cm_complete_fish},
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
