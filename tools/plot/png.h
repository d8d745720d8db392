/* SPDX-License-Identifier: MIT */
/* Writes pixels as PNG. Only in builds with zlib. */
#ifndef CM_TOOLS_PLOT_PNG_H
#define CM_TOOLS_PLOT_PNG_H

#include <stdint.h>
#include <stdio.h>

/* `pixels` has red, green and blue of each pixel, line by line. -ENOMEM. */
int cm_png_write(const uint8_t *pixels, uint32_t width, uint32_t height, FILE *file);

#endif
