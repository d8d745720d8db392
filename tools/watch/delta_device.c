/* SPDX-License-Identifier: MIT */
#include "tools/watch/delta_device.h"

#include <string.h>

#include "stats/counters.h"

void cm_delta_device_fill(struct cm_delta_device *device, const struct cm_device_view *view)
{
	device->index = view->index;
	device->flags = view->row.flags;
	device->ordinal = view->row.ordinal;
	memcpy(device->uuid, view->row.uuid, sizeof(device->uuid));
	memcpy(device->name, view->row.name, sizeof(device->name) - 1);
	device->total_bytes = view->row.total_bytes;
}

void cm_delta_device_write(const struct cm_delta_device *device, struct cm_bytes *bytes)
{
	cm_bytes_put_number(bytes, device->index);
	cm_bytes_put_number(bytes, device->flags);
	cm_bytes_put_number(bytes, (uint32_t)device->ordinal);
	cm_bytes_put(bytes, device->uuid, sizeof(device->uuid));
	cm_bytes_put_text(bytes, device->name);
	cm_bytes_put_number(bytes, device->total_bytes);
}

void cm_delta_device_read(struct cm_bytes_reader *from, struct cm_delta_device *device)
{
	device->index = (uint32_t)cm_bytes_get_number(from, CM_DEVICES_MAX - 1);
	device->flags = (uint32_t)cm_bytes_get_number(from, UINT32_MAX);
	device->ordinal = (int32_t)(uint32_t)cm_bytes_get_number(from, UINT32_MAX);
	cm_bytes_get(from, device->uuid, sizeof(device->uuid));
	cm_bytes_get_text(from, device->name, sizeof(device->name));
	device->total_bytes = cm_bytes_get_number(from, UINT64_MAX);
}

bool cm_delta_device_is(const struct cm_delta_device *device, const struct cm_device_view *view)
{
	return device->index == view->index && device->flags == view->row.flags &&
	       device->ordinal == view->row.ordinal &&
	       !memcmp(device->uuid, view->row.uuid, sizeof(device->uuid)) &&
	       !strncmp(device->name, view->row.name, sizeof(device->name) - 1) &&
	       device->total_bytes == view->row.total_bytes;
}

uint64_t cm_changes_find(const int64_t *last, const int64_t *now, size_t count)
{
	uint64_t mask = 0;
	size_t i;

	for (i = 0; i < count; i++)
		mask |= (uint64_t)(now[i] != last[i]) << i;
	return mask;
}

void cm_changes_write(int64_t *last, const int64_t *now, size_t count, struct cm_bytes *bytes)
{
	struct cm_bytes_recent recent = {0};
	size_t i;

	for (i = 0; i < count; i++) {
		if (now[i] == last[i])
			continue;
		cm_bytes_put_change(bytes, cm_wrap_sub(now[i], last[i]), &recent);
		last[i] = now[i];
	}
}

void cm_changes_read(struct cm_bytes_reader *from, uint64_t mask, int64_t *last, size_t known,
		     size_t count)
{
	struct cm_bytes_recent recent = {0};
	int64_t change;
	size_t i;

	for (i = 0; i < count; i++) {
		if (!(mask >> i & 1))
			continue;
		change = cm_bytes_get_change(from, &recent);
		if (i < known)
			last[i] = cm_wrap_add(last[i], change);
	}
}

static void read_figures(const struct cm_device_view *view, int64_t figure[CM_FIGURE_COUNT])
{
	cm_figures_read(&view->row, figure);
	figure[CM_FIGURE_TORN] = view->torn;
}

static uint32_t count_past(const struct cm_delta_device *device)
{
	return device->pasts < CM_DELTA_PAST_MAX ? device->pasts : CM_DELTA_PAST_MAX;
}

static size_t count_equal(const int64_t *a, const int64_t *b)
{
	size_t i, equal = 0;

	for (i = 0; i < CM_DELTA_STATE_COUNT; i++)
		equal += a[i] == b[i];
	return equal;
}

/* The place of the past state that is most like this one, plus 1; 0: the last sample is at least as
 * much like it. */
static uint32_t find_past(const struct cm_delta_device *device, const int64_t *figure)
{
	const int64_t *state = figure + CM_DELTA_STATE_FIRST;
	size_t best = count_equal(device->figure + CM_DELTA_STATE_FIRST, state), equal;
	uint32_t i, found = 0;

	for (i = 0; i < count_past(device); i++) {
		equal = count_equal(device->past[i], state);
		if (equal <= best)
			continue;
		best = equal;
		found = i + 1;
	}
	return found;
}

/* Returns to a past state, to which the changes are then added. */
static void go_back(struct cm_delta_device *device, uint32_t past)
{
	if (past)
		memcpy(device->figure + CM_DELTA_STATE_FIRST, device->past[past - 1],
		       sizeof(device->past[0]));
}

/* Keeps the present state of a device, if it is new. */
static void keep_state(struct cm_delta_device *device)
{
	const int64_t *state = device->figure + CM_DELTA_STATE_FIRST;
	uint32_t i;

	for (i = 0; i < count_past(device); i++)
		if (count_equal(device->past[i], state) == CM_DELTA_STATE_COUNT)
			return;
	memcpy(device->past[device->pasts++ % CM_DELTA_PAST_MAX], state, sizeof(device->past[0]));
}

bool cm_delta_device_has_changed(const struct cm_delta_device *device,
				 const struct cm_device_view *view)
{
	int64_t figure[CM_FIGURE_COUNT];

	read_figures(view, figure);
	return cm_changes_find(device->figure, figure, CM_FIGURE_COUNT) != 0;
}

void cm_delta_device_write_changes(struct cm_delta_device *device,
				   const struct cm_device_view *view, struct cm_bytes *bytes)
{
	int64_t figure[CM_FIGURE_COUNT];
	uint32_t past;

	read_figures(view, figure);
	past = find_past(device, figure);
	cm_bytes_put_number(bytes, past);
	go_back(device, past);
	cm_bytes_put_number(bytes, cm_changes_find(device->figure, figure, CM_FIGURE_COUNT));
	cm_changes_write(device->figure, figure, CM_FIGURE_COUNT, bytes);
	keep_state(device);
}

void cm_delta_device_read_changes(struct cm_delta_device *device, uint32_t figures,
				  struct cm_bytes_reader *from)
{
	uint64_t mask;

	go_back(device, (uint32_t)cm_bytes_get_number(from, count_past(device)));
	mask = cm_bytes_get_number(from, (UINT64_C(1) << figures) - 1);
	cm_changes_read(from, mask, device->figure, CM_FIGURE_COUNT, figures);
	keep_state(device);
}
