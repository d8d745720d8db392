/* SPDX-License-Identifier: MIT */
#include "tools/exporter/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A process on a GPU, as a member of a group. A process that leaves a group has ended for it. */
static int by_member(const void *a, const void *b)
{
	const struct cm_row *x = a, *y = b;
	int order;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	order = strcmp(x->gpu, y->gpu);
	return order ? order : strcmp(x->group, y->group);
}

static int copy_rows(struct cm_rows *to, const struct cm_rows *from)
{
	struct cm_rows copy = {.count = from->count, .room = from->count};

	copy.item = calloc(from->count ? from->count : 1, sizeof(*copy.item));
	if (!copy.item)
		return -ENOMEM;
	memcpy(copy.item, from->item, from->count * sizeof(*copy.item));
	qsort(copy.item, copy.count, sizeof(*copy.item), by_member);
	*to = copy;
	return 0;
}

/* Adds to the base what the member had counted and no longer has. False: not enough memory. */
static bool retire(struct cm_rows *base, const struct cm_row *was, const struct cm_row *is)
{
	struct cm_row *row = NULL;
	size_t i;

	for (i = 0; i < CM_METRIC_COUNT; i++) {
		if (cm_metrics[i].type != CM_TYPE_COUNTER || !(was->value[i] > 0) ||
		    (is && is->value[i] >= was->value[i]))
			continue;
		if (!row)
			row = cm_rows_add(base);
		if (!row)
			return false;
		memcpy(row->group, was->group, sizeof(row->group));
		memcpy(row->gpu, was->gpu, sizeof(row->gpu));
		row->created = was->created;
		row->value[i] = was->value[i];
	}
	return true;
}

static bool is_group_of(const struct cm_rows *rows, const struct cm_row *row)
{
	size_t i;

	for (i = 0; i < rows->count; i++)
		if (!strcmp(rows->item[i].group, row->group))
			return true;
	return false;
}

/* A group without a process is forgotten: its series end, and begin again with its next process. */
static void forget(struct cm_rows *base, const struct cm_rows *members)
{
	size_t i, kept = 0;

	for (i = 0; i < base->count; i++)
		if (is_group_of(members, &base->item[i]))
			base->item[kept++] = base->item[i];
	base->count = kept;
}

static bool add_base(struct cm_rows *rows, const struct cm_rows *base)
{
	struct cm_row *row;
	size_t i;

	for (i = 0; i < base->count; i++) {
		row = cm_rows_add(rows);
		if (!row)
			return false;
		*row = base->item[i];
	}
	return true;
}

int cm_ledger_join(struct cm_ledger *ledger, struct cm_rows *rows)
{
	struct cm_rows members;
	bool complete = true;
	size_t i;

	if (copy_rows(&members, rows)) {
		cm_rows_join(rows);
		return -ENOMEM;
	}
	for (i = 0; i < ledger->last.count; i++) {
		const struct cm_row *was = &ledger->last.item[i];

		complete &= retire(
			&ledger->base, was,
			bsearch(was, members.item, members.count, sizeof(*was), by_member));
	}
	cm_rows_join(&ledger->base);
	forget(&ledger->base, &members);
	complete &= add_base(rows, &ledger->base);
	cm_rows_join(rows);
	cm_rows_fini(&ledger->last);
	ledger->last = members;
	return complete ? 0 : -ENOMEM;
}

void cm_ledger_fini(struct cm_ledger *ledger)
{
	cm_rows_fini(&ledger->last);
	cm_rows_fini(&ledger->base);
}
