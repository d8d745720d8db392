/* SPDX-License-Identifier: MIT */
/*
 * Which rows of the model are shown, and in what order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "tools/output/reserve.h"
#include "tools/top/model.h"

/* The name of the group that a row is in. */
static const char *group_of(const struct cm_top_row *row, enum cm_top_group by)
{
	switch (by) {
	case CM_TOP_GROUP_CONTAINER:
		return *row->container ? row->container : "(no container)";
	case CM_TOP_GROUP_JOB:
		return *row->job ? row->job : "(no job)";
	case CM_TOP_GROUP_USER:
		return row->user;
	case CM_TOP_GROUP_COMM:
		return *row->comm ? row->comm : "(unknown)";
	case CM_TOP_GROUP_PID:
	case CM_TOP_GROUP_COUNT:
		break;
	}
	return "";
}

static bool is_shown(const struct cm_top *top, const struct cm_top_row *row)
{
	if (row->life == CM_LIFE_EXITED || (row->life == CM_LIFE_CRASHED && top->no_crashed))
		return false;
	if (row->gpu >= 0 && top->gpu[row->gpu].hidden)
		return false;
	return cm_where_holds(top->where, row->value);
}

/* An empty row for a group. The rows of earlier groups are reused. */
static struct cm_top_row *take_group(struct cm_top *top, const char *name)
{
	struct cm_top_row *row;
	size_t room = top->groups_room;

	if (!cm_reserve(&top->group, &room, top->groups + 1))
		return NULL;
	top->groups_room = room;
	if (!top->group[top->groups])
		top->group[top->groups] = malloc(sizeof(*row));
	row = top->group[top->groups];
	if (!row)
		return NULL;
	memset(row, 0, sizeof(*row));
	row->is_group = true;
	row->gpu = -1;
	(void)snprintf(row->comm, sizeof(row->comm), "%s", name);
	top->groups++;
	return row;
}

static struct cm_top_row *find_group(struct cm_top *top, const char *name)
{
	size_t i;

	for (i = 0; i < top->groups; i++)
		if (!strncmp(top->group[i]->comm, name, sizeof(top->group[i]->comm) - 1))
			return top->group[i];
	return take_group(top, name);
}

/* A sum over devices of different processes has no ordinal, and shares do not add up. */
static bool adds_up(size_t column, const struct cm_value *value)
{
	return (value->kind == CM_VALUE_BYTES || value->kind == CM_VALUE_NUMBER) &&
	       column != CM_WATCH_COLUMN_PID && column != CM_WATCH_COLUMN_NSPID &&
	       column != CM_WATCH_COLUMN_GPU && column != CM_WATCH_COLUMN_LARGEST &&
	       column != CM_WATCH_COLUMN_TOTAL && column != CM_WATCH_COLUMN_FREE;
}

static void add_to_group(struct cm_top_row *group, const struct cm_top_row *row)
{
	size_t i;

	group->members++;
	for (i = 0; i < CM_TOP_COLUMN_COUNT; i++) {
		if (!adds_up(i, &row->value[i]))
			continue;
		group->value[i].kind = row->value[i].kind;
		group->value[i].alarming |= row->value[i].alarming;
		group->value[i].number = cm_wrap_add(group->value[i].number, row->value[i].number);
	}
}

static void name_group(struct cm_top_row *group)
{
	(void)snprintf(group->group, sizeof(group->group), "%s (%zu)", group->comm, group->members);
}

/* Compares two values, smallest first. A missing value comes before all others. */
static int compare_values(const struct cm_value *a, const struct cm_value *b)
{
	if (!a->kind || !b->kind)
		return (a->kind != 0) - (b->kind != 0);
	if (a->kind == CM_VALUE_TEXT)
		return strcmp(a->text, b->text);
	if (a->kind == CM_VALUE_REAL)
		return (a->real > b->real) - (a->real < b->real);
	return (a->number > b->number) - (a->number < b->number);
}

/* Crashed processes come last, as they hold nothing any more. Texts in ascending order, numbers in
 * descending order. Equal rows keep their order. */
static int by_sort(const void *a, const void *b, void *context)
{
	const struct cm_top *top = context;
	const struct cm_top_row *x = *(struct cm_top_row *const *)a;
	const struct cm_top_row *y = *(struct cm_top_row *const *)b;
	const bool dead_x = x->life == CM_LIFE_CRASHED, dead_y = y->life == CM_LIFE_CRASHED;
	int order = compare_values(&x->value[top->sort], &y->value[top->sort]);

	if (dead_x != dead_y)
		return dead_x ? 1 : -1;
	if (cm_top_column_set.columns[top->sort].align == CM_ALIGN_RIGHT)
		order = -order;
	if (top->reverse)
		order = -order;
	if (order)
		return order;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->pid != y->pid ? (x->pid < y->pid ? -1 : 1)
				: (x->device > y->device) - (x->device < y->device);
}

static void sort_rows(struct cm_top *top, struct cm_top_row **rows, size_t count)
{
	if (count)
		qsort_r(rows, count, sizeof(struct cm_top_row *), by_sort, top);
}

/* Sums the rows into groups, and puts each group before its rows. */
static int arrange_groups(struct cm_top *top, size_t count)
{
	struct cm_top_row **from = malloc((count + 1) * sizeof(struct cm_top_row *));
	struct cm_top_row *group;
	size_t i, g, n = 0;

	if (!from)
		return -ENOMEM;
	memcpy(from, top->shown, count * sizeof(struct cm_top_row *));
	for (i = 0; i < count; i++) {
		group = find_group(top, group_of(from[i], top->group_by));
		if (!group) {
			free(from);
			return -ENOMEM;
		}
		add_to_group(group, from[i]);
	}
	for (g = 0; g < top->groups; g++)
		name_group(top->group[g]);
	sort_rows(top, top->group, top->groups);
	for (g = 0; g < top->groups; g++) {
		top->shown[n++] = top->group[g];
		for (i = 0; i < count; i++)
			if (!strncmp(group_of(from[i], top->group_by), top->group[g]->comm,
				     sizeof(from[i]->comm) - 1))
				top->shown[n++] = from[i];
	}
	top->shown_count = n;
	free(from);
	return 0;
}

/* The line of the selection in `shown`; 0 if there is none. */
static size_t selected_line(const struct cm_top *top)
{
	size_t i;

	for (i = 0; i < top->shown_count; i++)
		if (top->shown[i] == top->selected)
			return i;
	return 0;
}

void cm_top_select(struct cm_top *top, size_t line)
{
	if (!top->shown_count) {
		top->selected = NULL;
		return;
	}
	if (line >= top->shown_count)
		line = top->shown_count - 1;
	top->selected = top->shown[line];
	top->line = line;
	if (line < top->first)
		top->first = line;
	else if (top->page && line >= top->first + top->page)
		top->first = line - top->page + 1;
}

/* The selection stays with its process; if that is gone, with its line. */
static void keep_selection(struct cm_top *top)
{
	const size_t found = selected_line(top);

	if (!top->selected || top->selected->is_group || found >= top->shown_count ||
	    top->shown[found] != top->selected)
		cm_top_select(top, top->line);
	else if (top->follow)
		cm_top_select(top, found);
	else
		top->line = found;
	if (top->first >= top->shown_count)
		top->first = top->shown_count ? top->shown_count - 1 : 0;
}

int cm_top_arrange(struct cm_top *top)
{
	size_t i, n = 0;
	int err = 0;

	/* A line for each row, and at most as many groups. */
	if (!cm_reserve(&top->shown, &top->shown_room, 2 * top->rows + 1))
		return -ENOMEM;
	for (i = 0; i < top->rows; i++)
		if (is_shown(top, top->row[i]))
			top->shown[n++] = top->row[i];
	sort_rows(top, top->shown, n);
	for (i = 0; i < n; i++)
		top->shown[i]->place = i;
	top->shown_count = n;
	top->groups = 0;
	if (top->group_by != CM_TOP_GROUP_PID)
		err = arrange_groups(top, n);
	keep_selection(top);
	return err;
}
