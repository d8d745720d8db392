/* SPDX-License-Identifier: MIT */
/*
 * Snapshots in the formats of other tools. Each function writes to an open file, whose errors the
 * caller finds. All texts are valid UTF-8 without control characters.
 */
#ifndef CM_TOOLS_EXPORT_EXPORT_H
#define CM_TOOLS_EXPORT_EXPORT_H

#include <stdio.h>

#include "tools/processes/source.h"

/* 0, -ENOMEM, or -ENOSYS: this build lacks a library that the format needs. */
typedef int (*cm_export_fn)(const struct cm_source *source, FILE *file);

int cm_export_pickle(const struct cm_source *source, FILE *file);
int cm_export_json(const struct cm_source *source, FILE *file);
int cm_export_perfetto(const struct cm_source *source, FILE *file);
int cm_export_speedscope(const struct cm_source *source, FILE *file);
int cm_export_pprof(const struct cm_source *source, FILE *file);
int cm_export_folded(const struct cm_source *source, FILE *file);
int cm_export_csv(const struct cm_source *source, FILE *file);
int cm_export_sqlite(const struct cm_source *source, FILE *file);

struct cm_format {
	const char *name;
	const char *suffix;
	const char *help;
	const char *needs; /* a library that the build may lack; NULL: none */
	bool text;         /* may go to a terminal */
	bool uncached;     /* has memory outside the cache only with --uncached */
	cm_export_fn write;
};

/* Ends with a row without a name. */
extern const struct cm_format cm_formats[];

#endif
