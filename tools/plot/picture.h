/* SPDX-License-Identifier: MIT */
/*
 * A picture of areas, lines and texts, written as SVG or as PNG. Lengths are pixels, from the upper
 * left corner; a colour is 0xRRGGBB. Nothing is drawn outside of the picture.
 */
#ifndef CM_TOOLS_PLOT_PICTURE_H
#define CM_TOOLS_PLOT_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cm_picture_form { CM_PICTURE_SVG, CM_PICTURE_PNG };

struct cm_picture {
	enum cm_picture_form form;
	unsigned width, height;
	FILE *file;      /* of an SVG */
	uint8_t *pixels; /* of a PNG: red, green, blue */
};

/* A white picture. An SVG is written to `file` as it is drawn. -ENOMEM; -ENOSYS: this build cannot
 * pack a PNG. */
int cm_picture_open(struct cm_picture *picture, enum cm_picture_form form, unsigned width,
		    unsigned height, FILE *file);
/* Ends the file. -ENOMEM. */
int cm_picture_close(struct cm_picture *picture, FILE *file);

/* The area between two step curves; a column is `wide` pixels. */
void cm_picture_band(struct cm_picture *picture, double x, double wide, const double *low,
		     const double *high, size_t columns, uint32_t color);
void cm_picture_box(struct cm_picture *picture, double x, double y, double w, double h,
		    uint32_t color);
void cm_picture_line(struct cm_picture *picture, double x0, double y0, double x1, double y1,
		     double width, uint32_t color);

/* The part of a line of text that is at its x. */
enum cm_anchor { CM_ANCHOR_LEFT, CM_ANCHOR_MIDDLE, CM_ANCHOR_RIGHT };

/* A line of UTF-8; `y` is the baseline, `size` the height of a line. */
void cm_picture_text(struct cm_picture *picture, double x, double y, double size,
		     enum cm_anchor anchor, uint32_t color, const char *text);

#endif
