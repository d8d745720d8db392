/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/groups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"
#include "tools/output/reserve.h"
#include "tools/output/size.h"

#define NAME_BYTES 4096

static struct cm_group *find_group(struct cm_groups *groups, const char *name, uint32_t stack)
{
	const uint32_t number = name ? cm_intern_text(&groups->names, name) : CM_INTERN_NONE;

	if (number == CM_INTERN_NONE ||
	    !cm_reserve(&groups->group, &groups->room, number + (size_t)1))
		return NULL;
	if (number == groups->count) {
		groups->group[number].name = cm_intern_bytes(&groups->names, number, NULL);
		groups->group[number].sum.stack = stack;
		groups->count++;
	}
	return &groups->group[number];
}

/* "1.50 KiB (1536 B)", or "100 B". */
static void spell_size(uint64_t size, char *text, size_t bytes)
{
	const struct cm_units_text rounded = cm_size_format((int64_t)size);

	if (strstr(rounded.text, " B"))
		(void)snprintf(text, bytes, "%s", rounded.text);
	else
		(void)snprintf(text, bytes, "%s (%" PRIu64 " B)", rounded.text, size);
}

/* What of an allocation is not in its stack. */
static struct cm_group *find_by_span(struct cm_groups *groups, const struct cm_snapshot *snapshot,
				     const struct cm_span *span, uint32_t stack)
{
	struct cm_group *group;
	char name[NAME_BYTES];

	if (groups->view.by == CM_BY_SIZE)
		spell_size(span->size, name, sizeof(name));
	else if (groups->view.by == CM_BY_THREAD && span->thread)
		(void)snprintf(name, sizeof(name), "thread %u", span->thread);
	else if (groups->view.by == CM_BY_THREAD)
		(void)snprintf(name, sizeof(name), "(thread unknown)");
	else if (span->annotation)
		(void)cm_text_clean(name, sizeof(name),
				    cm_image_range(snapshot->image, span->annotation));
	else
		(void)snprintf(name, sizeof(name), "(outside all ranges)");
	group = find_group(groups, name, stack);
	if (group)
		group->size = span->size;
	return group;
}

static const char *file_of(const struct cm_snap_frame *frame)
{
	if (strcmp(frame->file, "??") != 0)
		return frame->file;
	return *frame->module ? frame->module : frame->function;
}

static struct cm_group *find_by_stack(struct cm_groups *groups, const struct cm_snapshot *snapshot,
				      const struct cm_snap_stack *stack)
{
	const struct cm_snap_frame *caller = cm_stack_caller(snapshot, stack);
	const uint32_t index = (uint32_t)(stack - snapshot->stack);
	const enum cm_by by = groups->view.by;
	struct cm_group *group;
	char *line;

	if (by == CM_BY_FUNCTION && groups->view.full)
		return find_group(groups, caller->function, index);
	if (by == CM_BY_FUNCTION)
		return find_group(groups, cm_function_format(caller).text, index);
	if (by == CM_BY_FILE)
		return find_group(groups, file_of(caller), index);
	if (by == CM_BY_LIBRARY)
		return find_group(groups, cm_stack_library(snapshot, stack), index);
	line = cm_stack_spell(snapshot, stack, &groups->view);
	group = find_group(groups, line, index);
	free(line);
	return group;
}

struct cm_group *cm_group_of(struct cm_groups *groups, const struct cm_snapshot *snapshot,
			     const struct cm_span *span)
{
	const struct cm_snap_stack *stack = cm_snapshot_stack(snapshot, span->stack);
	const size_t index = (size_t)(stack - snapshot->stack);
	struct cm_group *group;

	if (groups->view.by == CM_BY_SIZE || groups->view.by == CM_BY_THREAD ||
	    groups->view.by == CM_BY_RANGE)
		return find_by_span(groups, snapshot, span, (uint32_t)index);
	if (groups->of_stack[index])
		return &groups->group[groups->of_stack[index] - 1];
	group = find_by_stack(groups, snapshot, stack);
	if (group)
		groups->of_stack[index] = (uint32_t)(group - groups->group) + 1;
	return group;
}

int cm_groups_create(const struct cm_history *history, const struct cm_view *view,
		     struct cm_groups *ret_groups)
{
	struct cm_groups groups = {.view = *view};
	struct cm_group *group;
	size_t i;

	cm_intern_init(&groups.names);
	groups.of_stack = calloc(history->snapshot->stacks, sizeof(*groups.of_stack));
	if (!groups.of_stack)
		return -ENOMEM;
	for (i = 0; i < history->spans; i++) {
		group = cm_group_of(&groups, history->snapshot, &history->span[i]);
		if (!group) {
			cm_groups_fini(&groups);
			return -ENOMEM;
		}
		cm_sum_add(&group->sum, history, &history->span[i]);
	}
	*ret_groups = groups;
	return 0;
}

void cm_groups_fini(struct cm_groups *groups)
{
	cm_intern_fini(&groups->names);
	free(groups->group);
	free(groups->of_stack);
}
