/* SPDX-License-Identifier: MIT */
#include "tools/plot/plot.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "tools/output/gzip.h"
#include "tools/plot/plot_files.h"

/* A part of the data of a page. */
struct part {
	const void *bytes;
	size_t count;
};

/* Streaming Base64: a group of three bytes becomes four characters. */
struct base64 {
	FILE *file;
	uint8_t bytes[3];
	unsigned count;
};

static void put_group(struct base64 *base64)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint32_t bits = (uint32_t)base64->bytes[0] << 16 | (uint32_t)base64->bytes[1] << 8 |
			      base64->bytes[2];
	unsigned i;

	for (i = 0; i < 4; i++)
		(void)putc_unlocked(i <= base64->count ? digits[bits >> (18 - 6 * i) & 63] : '=',
				    base64->file);
	memset(base64->bytes, 0, sizeof(base64->bytes));
	base64->count = 0;
}

static void put_base64(void *to, const void *bytes, size_t count)
{
	struct base64 *base64 = to;
	const uint8_t *at = bytes;

	for (; count; count--) {
		base64->bytes[base64->count++] = *at++;
		if (base64->count == 3)
			put_group(base64);
	}
}

#if CM_HAVE_ZLIB
#define PACKING "gzip"

/* 0, -ENOMEM. */
static int pack(const struct part *part, size_t parts, struct base64 *base64)
{
	/* Fast: most pages are opened once. */
	struct cm_gzip *gzip = cm_gzip_open(CM_GZIP_FAST, put_base64, base64);
	size_t i;

	if (!gzip)
		return -ENOMEM;
	for (i = 0; i < parts; i++)
		cm_gzip_add(gzip, part[i].bytes, part[i].count);
	cm_gzip_close(gzip);
	return 0;
}
#else
#define PACKING "none"

static int pack(const struct part *part, size_t parts, struct base64 *base64)
{
	size_t i;

	for (i = 0; i < parts; i++)
		put_base64(base64, part[i].bytes, part[i].count);
	return 0;
}
#endif

/* Writes the length of the description, the description, zeros up to a multiple of 8, the
 * columns. */
static int put_data(const struct cm_columns *columns, FILE *file)
{
	static const char zeros[8];
	const uint32_t length = htole32((uint32_t)columns->text_count);
	const struct part parts[] = {
		{&length, sizeof(length)},
		{columns->text, columns->text_count},
		{zeros, (8 - (sizeof(length) + columns->text_count) % 8) % 8},
		{columns->bytes, columns->count},
	};
	struct base64 base64 = {.file = file};
	int err;

	err = pack(parts, sizeof(parts) / sizeof(parts[0]), &base64);
	if (base64.count)
		put_group(&base64);
	return err;
}

static void put_all(const char *const *texts, FILE *file)
{
	for (; *texts; texts++)
		(void)fputs(*texts, file);
}

static int put_page(const struct cm_columns *columns, const struct cm_plot_page *page, FILE *file)
{
	int err;

	/* The title is only the kind: foreign texts are in the data, which the page inserts as
	 * text. */
	(void)fprintf(file,
		      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		      "<meta name=\"viewport\" content=\"width=device-width\">\n"
		      "<title>GPU memory: %s</title>\n<style>\n",
		      page->title);
	put_all(page->styles, file);
	(void)fprintf(file,
		      "</style>\n</head>\n%s"
		      "<script type=\"text/plain\" id=\"data\" data-packing=\"" PACKING "\">",
		      page->html);
	err = put_data(columns, file);
	(void)fputs("</script>\n<script>\n\"use strict\";\n", file);
	put_all(page->scripts, file);
	(void)fputs("</script>\n</html>\n", file);
	return err;
}

int cm_plot_finish_page(struct cm_columns *columns, int err, const struct cm_plot_page *page,
			FILE *file)
{
	const int closed = cm_columns_close(columns);

	if (!err)
		err = closed;
	if (!err)
		err = put_page(columns, page, file);
	cm_columns_free(columns);
	return err;
}

int cm_plot_write(const struct cm_source *source, size_t count, enum cm_plot plot, FILE *file,
		  struct cm_plot_report *ret_report)
{
	static const char *const styles[] = {cm_plot_page_css, NULL};
	const struct cm_plot_page page = {cm_plot_name(plot), styles, cm_plot_page_html,
					  cm_plot_scripts};
	struct cm_plot_report report = {0};
	struct cm_columns columns;
	int err;

	err = cm_columns_open(&columns);
	if (!err)
		err = cm_plot_collect(source, count, plot, &columns, &report);
	err = cm_plot_finish_page(&columns, err, &page, file);
	if (!err)
		*ret_report = report;
	return err;
}
