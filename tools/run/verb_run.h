/* SPDX-License-Identifier: MIT */
/*
 * `run`: starts a program with the library preloaded.
 */
#ifndef CM_TOOLS_RUN_VERB_RUN_H
#define CM_TOOLS_RUN_VERB_RUN_H

#include "tools/cli/options.h"

/* Becomes the program, or waits for it if something is to be reported, saved or watched. Returns an
 * exit code. */
int cm_verb_run(const struct cm_options *options);

#endif
