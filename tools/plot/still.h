/* SPDX-License-Identifier: MIT */
/*
 * The timeline of one device as a still picture, for papers and issues: who held what over time,
 * with reserved memory, the requests that failed, and a legend.
 */
#ifndef CM_TOOLS_PLOT_STILL_H
#define CM_TOOLS_PLOT_STILL_H

#include "tools/plot/picture.h"
#include "tools/processes/source.h"

/* Draws the device with most events. 0, -ENOMEM; -ENOSYS: this build cannot pack a PNG; -ENODATA:
 * there are no events. */
int cm_still_write(const struct cm_source *source, enum cm_picture_form form, FILE *file);

#endif
