/* SPDX-License-Identifier: MIT */
/*
 * A sample as text: OpenMetrics 1.0, or the text format 0.0.4, which every client reads. Labels are
 * escaped and values that make no sense are left out, so that no process can spoil the page.
 */
#ifndef CM_TOOLS_EXPORTER_PAGE_H
#define CM_TOOLS_EXPORTER_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/exporter/sample.h"

#define CM_PREFIX           "cudamem_"
#define CM_TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define CM_TYPE_TEXT        "text/plain; version=0.0.4; charset=utf-8"

/* The caller checks `out` for errors. */
void cm_page_write(const struct cm_sample *sample, bool openmetrics, FILE *out);

#endif
