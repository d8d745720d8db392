/* SPDX-License-Identifier: MIT */
/*
 * The verbs. Each takes the parsed command line and returns an exit code.
 */
#ifndef CM_TOOLS_VERBS_VERBS_H
#define CM_TOOLS_VERBS_VERBS_H

#include "tools/cli/options.h"

int cm_verb_ls(const struct cm_options *options);
int cm_verb_top(const struct cm_options *options);
int cm_verb_demo(const struct cm_options *options);
int cm_verb_show(const struct cm_options *options);
int cm_verb_stat(const struct cm_options *options);
int cm_verb_memory_stats(const struct cm_options *options);
int cm_verb_trim(const struct cm_options *options);
int cm_verb_reset(const struct cm_options *options);
int cm_verb_history(const struct cm_options *options);
int cm_verb_snapshot(const struct cm_options *options);
int cm_verb_export(const struct cm_options *options);
int cm_verb_report(const struct cm_options *options);
int cm_verb_diff(const struct cm_options *options);
int cm_verb_plot(const struct cm_options *options);
int cm_verb_conf(const struct cm_options *options);
int cm_verb_exporter(const struct cm_options *options);
int cm_verb_check(const struct cm_options *options);
int cm_verb_doctor(const struct cm_options *options);
int cm_verb_completion(const struct cm_options *options);

#endif
