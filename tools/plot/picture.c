/* SPDX-License-Identifier: MIT */
#include "tools/plot/picture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plot/picture_font.h"
#include "tools/plot/png.h"

/* A glyph of the stroke font is so wide and so high, in units of its grid, with the gap behind. */
#define GLYPH_WIDE 5.6
#define GLYPH_HIGH 9.0

int cm_picture_open(struct cm_picture *picture, enum cm_picture_form form, unsigned width,
		    unsigned height, FILE *file)
{
	*picture = (struct cm_picture){
		.form = form, .width = width, .height = height, .file = file};
	if (form == CM_PICTURE_SVG) {
		(void)fprintf(file,
			      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" "
			      "width=\"%u\" height=\"%u\" font-family=\"sans-serif\">\n"
			      "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
			      width, height, width, height);
		return 0;
	}
#if !CM_HAVE_ZLIB
	return -ENOSYS;
#endif
	picture->pixels = malloc((size_t)3 * width * height);
	if (!picture->pixels)
		return -ENOMEM;
	memset(picture->pixels, 0xff, (size_t)3 * width * height);
	return 0;
}

int cm_picture_close(struct cm_picture *picture, FILE *file)
{
	int err = 0;

	if (picture->form == CM_PICTURE_SVG)
		(void)fputs("</svg>\n", file);
#if CM_HAVE_ZLIB
	else
		err = cm_png_write(picture->pixels, picture->width, picture->height, file);
#endif
	free(picture->pixels);
	picture->pixels = NULL;
	return err;
}

/* Covers a part of a pixel with a colour. */
static void blend(struct cm_picture *picture, long x, long y, double part, uint32_t color)
{
	uint8_t *pixel;
	int i;

	if (x < 0 || y < 0 || x >= (long)picture->width || y >= (long)picture->height || part <= 0)
		return;
	pixel = &picture->pixels[3 * ((size_t)y * picture->width + (size_t)x)];
	part = part > 1 ? 1 : part;
	for (i = 0; i < 3; i++) {
		const double wanted = (double)(color >> (16 - 8 * i) & 0xff);

		pixel[i] = (uint8_t)(pixel[i] + (wanted - pixel[i]) * part + 0.5);
	}
}

/* The part of [at, at + 1] that lies in [from, to]. */
static double overlap(long at, double from, double to)
{
	const double low = from > (double)at ? from : (double)at;
	const double high = to < (double)at + 1 ? to : (double)at + 1;

	return high > low ? high - low : 0;
}

static void fill(struct cm_picture *picture, double x, double y, double w, double h, uint32_t color)
{
	long px, py;

	x = x < 0 ? 0 : x;
	y = y < 0 ? 0 : y;
	for (py = (long)y; (double)py < y + h && py < (long)picture->height; py++)
		for (px = (long)x; (double)px < x + w && px < (long)picture->width; px++)
			blend(picture, px, py, overlap(px, x, x + w) * overlap(py, y, y + h),
			      color);
}

void cm_picture_box(struct cm_picture *picture, double x, double y, double w, double h,
		    uint32_t color)
{
	if (picture->form == CM_PICTURE_SVG)
		(void)fprintf(picture->file,
			      "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
			      "fill=\"#%06x\"/>\n",
			      x, y, w, h, (unsigned)color);
	else
		fill(picture, x, y, w, h, color);
}

/* One side of a band: equal columns are one step. */
static void put_steps(FILE *file, double x, double wide, const double *y, size_t columns,
		      bool backwards)
{
	size_t i, c;

	for (i = 0; i < columns; i++) {
		c = backwards ? columns - 1 - i : i;
		if (i && y[c] == y[backwards ? c + 1 : c - 1])
			continue;
		(void)fprintf(file, "H%.2fV%.2f", x + wide * (double)(backwards ? c + 1 : c), y[c]);
	}
	(void)fprintf(file, "H%.2f", backwards ? x : x + wide * (double)columns);
}

void cm_picture_band(struct cm_picture *picture, double x, double wide, const double *low,
		     const double *high, size_t columns, uint32_t color)
{
	size_t c;

	if (!columns)
		return;
	if (picture->form == CM_PICTURE_SVG) {
		(void)fprintf(picture->file, "<path fill=\"#%06x\" d=\"M%.2f,%.2f", (unsigned)color,
			      x, high[0]);
		put_steps(picture->file, x, wide, high, columns, false);
		put_steps(picture->file, x, wide, low, columns, true);
		(void)fputs("Z\"/>\n", picture->file);
		return;
	}
	for (c = 0; c < columns; c++)
		fill(picture, x + wide * (double)c, high[c], wide, low[c] - high[c], color);
}

/* The distance of a point from a line between two others. */
static double distance(double x, double y, double x0, double y0, double x1, double y1)
{
	const double dx = x1 - x0, dy = y1 - y0, square = dx * dx + dy * dy;
	double at = square > 0 ? ((x - x0) * dx + (y - y0) * dy) / square : 0;

	at = at < 0 ? 0 : at > 1 ? 1 : at;
	x -= x0 + at * dx;
	y -= y0 + at * dy;
	return sqrt(x * x + y * y);
}

static void stroke(struct cm_picture *picture, double x0, double y0, double x1, double y1,
		   double width, uint32_t color)
{
	const double half = width / 2;
	const double left = fmax(fmin(x0, x1) - half - 1, 0);
	const double top = fmax(fmin(y0, y1) - half - 1, 0);
	const double right = fmin(fmax(x0, x1) + half + 1, picture->width);
	const double bottom = fmin(fmax(y0, y1) + half + 1, picture->height);
	long x, y;

	if (left >= right || top >= bottom)
		return;
	for (y = (long)top; (double)y < bottom; y++)
		for (x = (long)left; (double)x < right; x++)
			blend(picture, x, y,
			      half + 0.5 -
				      distance((double)x + 0.5, (double)y + 0.5, x0, y0, x1, y1),
			      color);
}

void cm_picture_line(struct cm_picture *picture, double x0, double y0, double x1, double y1,
		     double width, uint32_t color)
{
	if (picture->form == CM_PICTURE_SVG)
		(void)fprintf(picture->file,
			      "<path stroke=\"#%06x\" stroke-width=\"%.2f\" fill=\"none\" "
			      "d=\"M%.2f,%.2fL%.2f,%.2f\"/>\n",
			      (unsigned)color, width, x0, y0, x1, y1);
	else
		stroke(picture, x0, y0, x1, y1, width, color);
}

/* Of a line of text in pixels, in a PNG; in an SVG it depends on the reader's fonts. */
static double text_width(double size, size_t characters)
{
	return (double)characters * size * GLYPH_WIDE / GLYPH_HIGH;
}

static void put_glyph(struct cm_picture *picture, double x, double y, double unit, uint32_t color,
		      char character)
{
	const char *at = cm_font_strokes(character);
	double from_x = 0, from_y = 0, to_x, to_y;
	bool begun = false;

	for (; *at; at++) {
		if (*at == ' ') {
			begun = false;
			continue;
		}
		to_x = x + unit * (*at - '0');
		to_y = y - unit * (*++at - '2');
		/* A point alone is a dot. */
		stroke(picture, begun ? from_x : to_x, begun ? from_y : to_y, to_x, to_y,
		       unit * 0.95, color);
		from_x = to_x;
		from_y = to_y;
		begun = true;
	}
}

static size_t count_characters(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

static void put_glyphs(struct cm_picture *picture, double x, double y, double size, uint32_t color,
		       const char *text)
{
	for (; *text; text++) {
		const unsigned char code = (unsigned char)*text;

		if ((code & 0xc0) == 0x80)
			continue; /* the character has begun before */
		/* The micro sign looks like a u; characters outside ASCII become a box. */
		put_glyph(picture, x, y, size / GLYPH_HIGH, color,
			  !strncmp(text, "\xc2\xb5", 2) ? 'u'
			  : code < 0x80                 ? *text
							: '\x7f');
		x += text_width(size, 1);
	}
}

static void put_svg_text(FILE *file, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			(void)fputs("&lt;", file);
		else if (*text == '&')
			(void)fputs("&amp;", file);
		else
			(void)fputc(*text, file);
	}
}

void cm_picture_text(struct cm_picture *picture, double x, double y, double size,
		     enum cm_anchor anchor, uint32_t color, const char *text)
{
	static const char *const anchors[] = {"start", "middle", "end"};

	if (picture->form == CM_PICTURE_SVG) {
		(void)fprintf(picture->file,
			      "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\" fill=\"#%06x\" "
			      "text-anchor=\"%s\">",
			      x, y, size, (unsigned)color, anchors[anchor]);
		put_svg_text(picture->file, text);
		(void)fputs("</text>\n", picture->file);
		return;
	}
	put_glyphs(picture, x - text_width(size, count_characters(text)) * (double)anchor / 2, y,
		   size, color, text);
}
