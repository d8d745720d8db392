/* SPDX-License-Identifier: MIT */
#include "tools/plot/still.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/size.h"
#include "tools/plot/curve.h"
#include "tools/snapshot/figures.h"

#define WIDTH      1200
#define HEIGHT     640
#define LEFT       96.0
#define RIGHT      352.0 /* for the legend */
#define TOP        62.0
#define BOTTOM     44.0
#define COLUMNS    752 /* one a pixel */
#define BANDS      14
#define TEXT_SIZE  15.0
#define SMALL_SIZE 13.0
#define NAME_MOST  37 /* characters of a name in the legend */
#define OOMS_MOST  20

#define INK     0x1d2330
#define FAINT   0x667085
#define GRID    0xe3e7ee
#define ALARM   0xd4302b
#define OTHER   0x969eaa
#define OUTSIDE 0xd0d5dd

/* The colours of the page. */
static const uint32_t palette[] = {0x4e79a7, 0xf28e2b, 0x59a14f, 0xe15759, 0x76b7b2,
				   0xb07aa1, 0xedc948, 0xff9da7, 0x9c755f, 0x86bcb6,
				   0xd37295, 0x8cd17d, 0xa0cbe8, 0xb6992d};

struct still {
	struct cm_picture picture;
	const struct cm_source *source;
	const struct cm_history *history;
	const struct cm_curve *curve;
	double w, h;   /* of the plot */
	double most;   /* bytes at its top */
	bool reserved; /* is drawn: it does not flatten the others, or carries a band */
};

static uint32_t color_of(const struct cm_curve *curve, size_t band)
{
	return band + 1 == curve->bands ? OTHER
					: palette[band % (sizeof(palette) / sizeof(palette[0]))];
}

static double y_of(const struct still *still, double bytes)
{
	return TOP + still->h - bytes / still->most * still->h;
}

static void draw_axis(struct still *still)
{
	double step = 1, v;
	int k;

	while (step < still->most / 8)
		step *= 2;
	for (k = 0; k * step <= still->most; k++) {
		v = k * step;
		cm_picture_box(&still->picture, LEFT, y_of(still, v) - 0.5, still->w, 1, GRID);
		cm_picture_text(&still->picture, LEFT - 8, y_of(still, v) + 4, SMALL_SIZE,
				CM_ANCHOR_RIGHT, FAINT, cm_size_format((int64_t)v).text);
	}
}

/* 1, 2 or 5 times a power of ten. */
static double round_step(double least)
{
	double power = 1;

	while (power < least)
		power *= 10;
	while (power / 10 >= least)
		power /= 10;
	return least <= power / 5 ? power / 5 : least <= power / 2 ? power / 2 : power;
}

/* The axis has the largest unit of which it shows two. */
static const struct {
	const char *name;
	double ns;
} units[] = {
	{"d", 86400e9}, {"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}, {"\xc2\xb5s", 1e3},
};

static void draw_times(struct still *still)
{
	const double span = (double)still->curve->span_ns;
	size_t u = 0;
	double unit, step, v, x;
	char text[48];
	int k;

	if (span <= 0)
		return;
	while (u + 1 < sizeof(units) / sizeof(units[0]) && span < 2 * units[u].ns)
		u++;
	unit = units[u].ns;
	step = round_step(span / unit / 8);
	for (k = 0; k * step <= span / unit * 1.000001; k++) {
		v = k * step;
		x = LEFT + v * unit / span * still->w;
		cm_picture_line(&still->picture, x, TOP + still->h, x, TOP + still->h + 5, 1,
				FAINT);
		(void)snprintf(text, sizeof(text), "%g %s", v, units[u].name);
		cm_picture_text(&still->picture, x, TOP + still->h + 20, SMALL_SIZE,
				CM_ANCHOR_MIDDLE, FAINT, text);
	}
}

static int draw_bands(struct still *still)
{
	const struct cm_curve *curve = still->curve;
	double *low = calloc(curve->columns, sizeof(*low));
	double *high = calloc(curve->columns, sizeof(*high));
	double *sum = calloc(curve->columns, sizeof(*sum));
	size_t b, c;

	for (b = 0; low && high && sum && b < curve->bands; b++) {
		for (c = 0; c < curve->columns; c++) {
			low[c] = y_of(still, sum[c]);
			sum[c] += (double)curve->band[b].bytes[c];
			high[c] = y_of(still, sum[c]);
		}
		cm_picture_band(&still->picture, LEFT, still->w / (double)curve->columns, low, high,
				curve->columns, color_of(curve, b));
	}
	b = low && high && sum;
	free(low);
	free(high);
	free(sum);
	return b ? 0 : -ENOMEM;
}

/* A band upon what is reserved: together they are what the program has of the device. */
static int draw_outside(struct still *still)
{
	const struct cm_curve *curve = still->curve;
	double *low, *high;
	size_t c;

	if (!curve->outside)
		return 0;
	low = calloc(curve->columns, sizeof(*low));
	high = calloc(curve->columns, sizeof(*high));
	for (c = 0; low && high && c < curve->columns; c++) {
		low[c] = y_of(still, (double)curve->reserved[c]);
		high[c] = y_of(still, (double)curve->reserved[c] + (double)curve->outside[c]);
	}
	if (low && high)
		cm_picture_band(&still->picture, LEFT, still->w / (double)curve->columns, low, high,
				curve->columns, OUTSIDE);
	c = low && high;
	free(low);
	free(high);
	return c ? 0 : -ENOMEM;
}

static void draw_reserved(struct still *still)
{
	const struct cm_curve *curve = still->curve;
	const double wide = still->w / (double)curve->columns;
	double x = LEFT, y, before = 0;
	size_t c, next;

	for (c = 0; still->reserved && c < curve->columns; c = next) {
		for (next = c + 1;
		     next < curve->columns && curve->reserved[next] == curve->reserved[c];)
			next++;
		y = y_of(still, (double)curve->reserved[c]);
		if (c)
			cm_picture_line(&still->picture, x, before, x, y, 1.5, INK);
		cm_picture_line(&still->picture, x, y, LEFT + wide * (double)next, y, 1.5, INK);
		x = LEFT + wide * (double)next;
		before = y;
	}
}

/* Marks requests that failed; the first one has a text. */
static void draw_ooms(struct still *still)
{
	const struct cm_history *history = still->history;
	const uint64_t start = still->curve->start_ns, span = still->curve->span_ns;
	size_t i, shown = 0;
	uint64_t time;
	char text[64];
	double x;

	for (i = 0; i < history->events && shown < OOMS_MOST; i++) {
		time = cm_history_time(history, i);
		/* The time of a damaged event may be outside the picture. */
		if (history->event[i].action != CM_ACTION_OOM || time < start ||
		    time - start > span)
			continue;
		x = LEFT + still->w * (double)(time - start) / (double)(span ? span : 1);
		cm_picture_line(&still->picture, x, TOP, x, TOP + still->h, 1.5, ALARM);
		(void)snprintf(text, sizeof(text), "out of memory: %s",
			       cm_size_format((int64_t)history->event[i].size).text);
		if (!shown++)
			cm_picture_text(&still->picture, x, TOP - 6, SMALL_SIZE,
					x > LEFT + still->w / 2 ? CM_ANCHOR_RIGHT : CM_ANCHOR_LEFT,
					ALARM, text);
	}
}

/* The bytes of the beginning of a text with at most so many characters. */
static size_t fitting(const char *name, size_t most)
{
	size_t at, characters = 0;

	for (at = 0; name[at]; at++) {
		characters += ((unsigned char)name[at] & 0xc0) != 0x80;
		if (characters > most)
			break;
	}
	return at;
}

/* Where the second line of a name begins: behind the last frame or word that fits the first one. */
static size_t break_name(const char *name)
{
	const size_t most = fitting(name, NAME_MOST);
	size_t at;

	for (at = most; name[most] && at > 1; at--)
		if (name[at] == '<' && name[at - 1] == ' ')
			return at;
	return most;
}

/* A text, or its beginning and "..." if it is too long for a line. */
static void draw_cut(struct still *still, double x, double y, const char *name)
{
	const bool fits = !name[fitting(name, NAME_MOST)];
	char text[4 * NAME_MOST + 4];

	(void)snprintf(text, sizeof(text), "%.*s%s",
		       (int)fitting(name, fits ? NAME_MOST : NAME_MOST - 3), name,
		       fits ? "" : "...");
	cm_picture_text(&still->picture, x, y, SMALL_SIZE, CM_ANCHOR_LEFT, INK, text);
}

/* A name on at most two lines. Returns how many. */
static int draw_name(struct still *still, double x, double y, const char *name, bool second)
{
	const size_t first = break_name(name);
	char text[4 * NAME_MOST + 1];

	if (!second || !name[first]) {
		draw_cut(still, x, y, name);
		return 1;
	}
	(void)snprintf(text, sizeof(text), "%.*s", (int)first, name);
	cm_picture_text(&still->picture, x, y, SMALL_SIZE, CM_ANCHOR_LEFT, INK, text);
	draw_cut(still, x, y + 14, name + first);
	return 2;
}

static void draw_legend_outside(struct still *still, double x, double y)
{
	char text[64];

	cm_picture_box(&still->picture, x, y - 10, 11, 11, OUTSIDE);
	cm_picture_text(&still->picture, x + 18, y, SMALL_SIZE, CM_ANCHOR_LEFT, INK,
			"outside the cache");
	(void)snprintf(text, sizeof(text), "up to %s",
		       cm_size_format((int64_t)still->curve->most_outside).text);
	cm_picture_text(&still->picture, x + 18, y + 14, SMALL_SIZE - 1, CM_ANCHOR_LEFT, FAINT,
			text);
}

static void draw_legend(struct still *still)
{
	const struct cm_curve *curve = still->curve;
	const double x = WIDTH - RIGHT + 24;
	const bool second = TOP + 8 + (double)(curve->bands + 2) * 47 < HEIGHT;
	double y = TOP + 8;
	char text[64];
	size_t b;

	cm_picture_text(&still->picture, x, y, SMALL_SIZE, CM_ANCHOR_LEFT, FAINT,
			"allocated at the peak");
	for (b = 0; b < curve->bands; b++) {
		if (b + 1 == curve->bands && !curve->others)
			continue;
		y += 33;
		(void)snprintf(text, sizeof(text), "%s",
			       cm_size_format((int64_t)curve->band[b].peak_bytes).text);
		cm_picture_box(&still->picture, x, y - 10, 11, 11, color_of(curve, b));
		y += 14 * (draw_name(still, x + 18, y, curve->band[b].name, second) - 1);
		cm_picture_text(&still->picture, x + 18, y + 14, SMALL_SIZE - 1, CM_ANCHOR_LEFT,
				FAINT, text);
	}
	if (curve->outside)
		draw_legend_outside(still, x, y += 33);
	if (still->reserved) {
		y += 33;
		cm_picture_line(&still->picture, x, y - 4, x + 11, y - 4, 1.5, INK);
		cm_picture_text(&still->picture, x + 18, y, SMALL_SIZE, CM_ANCHOR_LEFT, INK,
				"reserved from the driver");
	}
}

static void draw_title(struct still *still)
{
	const struct cm_level *peak = cm_history_level(still->history, still->history->peak);
	const struct cm_snap_device *device = still->history->device;
	char text[256];

	(void)snprintf(text, sizeof(text), "%s, process %d, %s", still->source->comm,
		       (int)still->source->pid, cm_device_title(device).text);
	cm_picture_text(&still->picture, 16, 24, TEXT_SIZE, CM_ANCHOR_LEFT, INK, text);
	(void)snprintf(text, sizeof(text), "peak %s allocated%s%s%s",
		       cm_size_format((int64_t)peak->allocated).text, device->outside ? "" : ", ",
		       device->outside ? "" : cm_size_format((int64_t)peak->reserved).text,
		       device->outside ? "" : " reserved");
	cm_picture_text(&still->picture, WIDTH - 16, 24, SMALL_SIZE, CM_ANCHOR_RIGHT, FAINT, text);
}

static int draw(struct still *still)
{
	const struct cm_curve *curve = still->curve;
	uint64_t most = curve->most;
	int err;

	still->w = WIDTH - LEFT - RIGHT;
	still->h = HEIGHT - TOP - BOTTOM;
	still->reserved = !still->history->device->outside &&
			  (curve->outside || curve->most_reserved <= 2 * curve->most);
	if (still->reserved && curve->most_reserved > most)
		most = curve->most_reserved;
	if (curve->most_total > most)
		most = curve->most_total;
	still->most = most ? (double)most * 1.05 : 1;
	draw_title(still);
	draw_axis(still);
	err = draw_outside(still);
	if (!err)
		err = draw_bands(still);
	draw_reserved(still);
	draw_times(still);
	draw_ooms(still);
	draw_legend(still);
	return err;
}

static const struct cm_snap_device *busiest(const struct cm_snapshot *snapshot)
{
	const struct cm_snap_device *best = NULL, *device;
	size_t i;

	for (i = 0; (device = cm_snapshot_device(snapshot, i)); i++)
		if (device->events && (!best || device->events > best->events))
			best = device;
	return best;
}

int cm_still_write(const struct cm_source *source, enum cm_picture_form form, FILE *file)
{
	const struct cm_snap_device *device = busiest(source->snapshot);
	struct still still = {.source = source};
	struct cm_history *history;
	struct cm_curve *curve;
	int err, closed;

	if (!device)
		return -ENODATA;
	err = cm_history_create(source->snapshot, device, &history);
	if (err)
		return err;
	err = cm_curve_create(history, COLUMNS, BANDS, &curve);
	if (err)
		goto err_history;
	still.history = history;
	still.curve = curve;
	err = cm_picture_open(&still.picture, form, WIDTH, HEIGHT, file);
	if (!err) {
		err = draw(&still);
		closed = cm_picture_close(&still.picture, file);
		err = err ? err : closed;
	}
	cm_curve_destroy(curve);
err_history:
	cm_history_destroy(history);
	return err;
}
