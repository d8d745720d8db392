/* SPDX-License-Identifier: MIT */
#include "tools/run/leaks.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/size.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/history.h"

#define QUARTERS   4
#define STACKS_MAX 20

/* Libraries that keep handles and workspaces until the driver is unloaded. */
static const char *const built_in[] = {"libcublas",   "libcudnn",    "libnccl",   "libcufft",
				       "libcusolver", "libcusparse", "libcurand", "libnvrtc",
				       "libnvinfer",  "libnvshmem"};

struct cm_suppressions {
	char **pattern; /* with * at both ends */
	size_t count;
};

static int add_pattern(struct cm_suppressions *to, const char *text, size_t length)
{
	char **more = reallocarray(to->pattern, to->count + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	to->pattern = more;
	if (asprintf(&to->pattern[to->count], "*%.*s*", (int)length, text) < 0)
		return -ENOMEM;
	to->count++;
	return 0;
}

static int read_file(struct cm_suppressions *to, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0, length;
	unsigned number = 0;
	int exit = 0;

	if (!file)
		return cm_fail(CM_EXIT_RUN, "--suppressions %s: %s", path, strerror(errno));
	while (!exit && getline(&line, &room, file) >= 0) {
		number++;
		length = strcspn(line, "\r\n");
		line[length] = '\0';
		if (!length || line[0] == '#')
			continue;
		if (strncmp(line, "leak:", 5) != 0 || length == 5) {
			cm_complain("--suppressions %s, line %u: want leak:PATTERN", path, number);
			exit = CM_EXIT_RUN;
		} else if (add_pattern(to, line + 5, length - 5)) {
			exit = CM_EXIT_RUN;
		}
	}
	if (!exit && ferror(file))
		exit = cm_fail(CM_EXIT_RUN, "--suppressions %s: %s", path, strerror(errno));
	free(line);
	(void)fclose(file);
	return exit;
}

int cm_suppressions_read(const char *path, struct cm_suppressions **ret_suppressions)
{
	struct cm_suppressions *made = calloc(1, sizeof(*made));
	int exit = made ? 0 : CM_EXIT_RUN;
	size_t i;

	for (i = 0; i < sizeof(built_in) / sizeof(built_in[0]) && !exit; i++)
		if (add_pattern(made, built_in[i], strlen(built_in[i])))
			exit = CM_EXIT_RUN;
	if (!exit && path)
		exit = read_file(made, path);
	if (exit) {
		cm_suppressions_free(made);
		return exit;
	}
	*ret_suppressions = made;
	return 0;
}

void cm_suppressions_free(struct cm_suppressions *suppressions)
{
	size_t i;

	if (!suppressions)
		return;
	for (i = 0; i < suppressions->count; i++)
		free(suppressions->pattern[i]);
	free(suppressions->pattern);
	free(suppressions);
}

static bool is_suppressed(const struct cm_suppressions *suppressions,
			  const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack)
{
	uint32_t f;
	size_t i;

	for (f = 0; f < stack->count; f++) {
		const struct cm_snap_frame *frame = cm_stack_frame(snapshot, stack, f);

		for (i = 0; i < suppressions->count; i++)
			if (!fnmatch(suppressions->pattern[i], frame->function, 0) ||
			    !fnmatch(suppressions->pattern[i], frame->file, 0) ||
			    !fnmatch(suppressions->pattern[i], frame->module, 0))
				return true;
	}
	return false;
}

/* What a stack holds at exit, and at the end of each quarter of the run. */
struct leak {
	const struct cm_snap_device *device;
	uint32_t stack;
	uint64_t bytes;
	uint64_t blocks;
	uint64_t held[QUARTERS];
	unsigned rises;
};

/* The quarter of an event. Quarters have equal numbers of events, so idle times do not matter. */
static unsigned quarter_of(const struct cm_history *history, uint32_t event)
{
	return (unsigned)((uint64_t)event * QUARTERS / history->events);
}

static void add_span(struct leak *leak, const struct cm_history *history,
		     const struct cm_span *span)
{
	const unsigned from = span->begin == CM_BEFORE ? 0 : quarter_of(history, span->begin);
	const unsigned to = span->freed == CM_NEVER ? QUARTERS : quarter_of(history, span->freed);
	unsigned q;

	if (span->freed == CM_BEFORE)
		return;
	for (q = from; q < to; q++)
		leak->held[q] += span->size;
	if (span->freed != CM_NEVER)
		return;
	leak->bytes += span->size;
	leak->blocks++;
}

static bool is_growing(const struct leak *leak)
{
	return leak->rises >= QUARTERS - 1;
}

/* All of it is from the first quarter: probably a cache or a global. */
static bool is_from_start(const struct leak *leak)
{
	return leak->held[0] >= leak->bytes;
}

static int by_growth(const void *a, const void *b)
{
	const struct leak *x = a, *y = b;

	if (is_growing(x) != is_growing(y))
		return is_growing(x) ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static int find_leaks(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		      struct leak *leaks)
{
	struct cm_history *history;
	size_t i;
	int err;

	err = cm_history_create(snapshot, device, &history);
	if (err)
		return err;
	for (i = 0; i < history->spans; i++) {
		const struct cm_span *span = &history->span[i];
		struct leak *leak =
			&leaks[cm_snapshot_stack(snapshot, span->stack) - snapshot->stack];

		if (history->events) {
			add_span(leak, history, span);
		} else if (span->freed == CM_NEVER) {
			leak->bytes += span->size;
			leak->blocks++;
		}
	}
	for (i = 0; i < snapshot->stacks; i++) {
		leaks[i].device = device;
		leaks[i].stack = (uint32_t)i;
	}
	cm_history_destroy(history);
	return 0;
}

/* Prints a line to `out` about the process of `source`. */
#define LINE(format, ...) cm_line_of(out, source->pid, 8, format, ##__VA_ARGS__)

static void print_frame(FILE *out, const struct cm_source *source, uint64_t number,
			const struct cm_snap_frame *frame, bool full)
{
	const struct cm_function_text plain = cm_function_format(frame);
	const char *function = full ? frame->function : plain.text;

	if (frame->line)
		LINE("    #%" PRIu64 " %s  %s:%u", number, function, frame->file, frame->line);
	else
		LINE("    #%" PRIu64 " %s  %s", number, function, frame->module);
}

static void print_leak(FILE *out, const struct cm_source *source, const struct leak *leak,
		       const struct cm_view *view)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	const struct cm_snap_stack *stack = &snapshot->stack[leak->stack];
	uint32_t at = view->full ? 0 : cm_stack_caller_at(snapshot, stack);
	uint64_t shown = 0;

	LINE("  %s  %" PRIu64 " %s  %s%s", cm_size_format((int64_t)leak->bytes).text, leak->blocks,
	     leak->blocks == 1 ? "block" : "blocks", cm_device_title(leak->device).text,
	     is_growing(leak)      ? "  GROWING"
	     : is_from_start(leak) ? "  since the beginning"
				   : "");
	while (at < stack->count && (view->full || shown < view->depth)) {
		print_frame(out, source, ++shown, cm_stack_frame(snapshot, stack, at), view->full);
		at = view->full ? at + 1 : cm_stack_next(snapshot, stack, at);
	}
	if (at < stack->count)
		LINE("    (more callers: --depth N)");
	if (!stack->count)
		LINE("    no stack was recorded");
}

static void count_rises(struct leak *leak)
{
	unsigned q;

	leak->rises = leak->held[0] > 0;
	for (q = 1; q < QUARTERS; q++)
		leak->rises += leak->held[q] > leak->held[q - 1];
}

static void add_leak(struct leak *to, const struct leak *more)
{
	unsigned q;

	to->bytes += more->bytes;
	to->blocks += more->blocks;
	for (q = 0; q < QUARTERS; q++)
		to->held[q] += more->held[q];
}

/* What is shown of a stack, with its device. NULL: not enough memory. */
static char *spell_leak(const struct cm_snapshot *snapshot, const struct leak *leak,
			const struct cm_view *view)
{
	char *line = cm_stack_spell(snapshot, &snapshot->stack[leak->stack], view), *text;

	if (!line)
		return NULL;
	if (asprintf(&text, "%s %s", cm_device_title(leak->device).text, line) < 0)
		text = NULL;
	free(line);
	return text;
}

/* Joins stacks that look the same in the report, and reduces *count. -ENOMEM. */
static int merge(const struct cm_snapshot *snapshot, const struct cm_view *view, struct leak *leaks,
		 size_t *count)
{
	struct cm_intern lines;
	uint32_t number = 0;
	size_t i, kept = 0;
	char *line;

	cm_intern_init(&lines);
	for (i = 0; i < *count && number != CM_INTERN_NONE; i++) {
		line = spell_leak(snapshot, &leaks[i], view);
		number = line ? cm_intern_text(&lines, line) : CM_INTERN_NONE;
		free(line);
		if (number == kept)
			leaks[kept++] = leaks[i];
		else if (number < kept)
			add_leak(&leaks[number], &leaks[i]);
	}
	cm_intern_fini(&lines);
	for (i = 0; i < kept; i++)
		count_rises(&leaks[i]);
	*count = kept;
	return number == CM_INTERN_NONE ? -ENOMEM : 0;
}

/* Removes empty and suppressed stacks from the array. Returns the number of the others. */
static size_t drop_suppressed(const struct cm_suppressions *suppressions,
			      const struct cm_snapshot *snapshot, struct leak *leaks, size_t count,
			      size_t *ret_hidden, uint64_t *ret_hidden_bytes)
{
	size_t i, kept = 0;

	for (i = 0; i < count; i++) {
		if (!leaks[i].bytes)
			continue;
		if (is_suppressed(suppressions, snapshot, &snapshot->stack[leaks[i].stack])) {
			++*ret_hidden;
			*ret_hidden_bytes += leaks[i].bytes;
			continue;
		}
		leaks[kept++] = leaks[i];
	}
	return kept;
}

static void print_all(FILE *out, const struct cm_source *source, const struct cm_view *view,
		      const struct leak *leaks, size_t count, size_t hidden, uint64_t hidden_bytes)
{
	uint64_t bytes = 0, blocks = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		bytes += leaks[i].bytes;
		blocks += leaks[i].blocks;
	}
	if (count)
		LINE("cudamem: %zu %s memory at exit: %s in %" PRIu64 " %s", count,
		     count == 1 ? "stack still holds" : "stacks still hold",
		     cm_size_format((int64_t)bytes).text, blocks, blocks == 1 ? "block" : "blocks");
	else
		LINE("cudamem: nothing is held at exit");
	for (i = 0; i < count && i < STACKS_MAX; i++)
		print_leak(out, source, &leaks[i], view);
	if (count > STACKS_MAX)
		LINE("  and %s more", cm_count_of((int64_t)(count - STACKS_MAX), "stack").text);
	if (hidden)
		LINE("  suppressed: %s, %s", cm_count_of((int64_t)hidden, "stack").text,
		     cm_size_format((int64_t)hidden_bytes).text);
}

int cm_leaks_print(const struct cm_source *source, const struct cm_suppressions *suppressions,
		   const struct cm_view *view, FILE *out, size_t *ret_leaks)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	const size_t room = (snapshot->devices + snapshot->outsides) * snapshot->stacks;
	const struct cm_snap_device *device;
	struct leak *leaks = calloc(room + 1, sizeof(*leaks));
	uint64_t hidden_bytes = 0;
	size_t i, count = 0, hidden = 0;
	int err = leaks ? 0 : -ENOMEM;

	for (i = 0; (device = cm_snapshot_device(snapshot, i)) && !err; i++)
		err = find_leaks(snapshot, device, leaks + i * snapshot->stacks);
	if (!err) {
		count = drop_suppressed(suppressions, snapshot, leaks, room, &hidden,
					&hidden_bytes);
		err = merge(snapshot, view, leaks, &count);
	}
	if (!err) {
		qsort(leaks, count, sizeof(*leaks), by_growth);
		print_all(out, source, view, leaks, count, hidden, hidden_bytes);
		*ret_leaks = count;
	}
	free(leaks);
	return err;
}
