/* SPDX-License-Identifier: MIT */
#include "interpose/process/oom_message.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocator/base/attr.h"
#include "allocator/base/thread.h"
#include "interpose/core/log.h"
#include "interpose/core/state.h"
#include "interpose/stacks/frames.h"
#include "stats/region.h"
#include "stats/text.h"
#include "stats/units.h"

/* A program that probes for the largest possible allocation must not fill its log. */
#define LINES_MAX 100

#define TEXT_BYTES 4096 /* PIPE_BUF: a pipe takes this in one write */

#define NAME_BYTES    72 /* the name of a holder; a line then has about 100 characters */
#define PLACE_BYTES   84 /* the place of the failed request */
#define COMMAND_BYTES 400

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
/* Amounts are in GiB on devices, or under limits, of this size and more, else in MiB. */
#define LARGE_DEVICE (10 * GIB)

/* The parts of the device's memory. */
enum { USED, CACHED, UNCACHED, PEERS, REST, FREE, PARTS };

struct text {
	char bytes[TEXT_BYTES];
	size_t length;
	int pid;
	int64_t unit; /* the unit of all amounts */
	const char *unit_name;
	int64_t part[PARTS]; /* in hundredths; they add up to the device's */
	int64_t part_bytes[PARTS];
};

/* A number as text, valid within the full expression that made it. */
struct amount {
	char text[32];
};

static struct amount amount_of(int64_t hundredths)
{
	const uint64_t n = hundredths < 0 ? -(uint64_t)hundredths : (uint64_t)hundredths;
	struct amount amount;

	(void)snprintf(amount.text, sizeof(amount.text), "%s%llu.%02u", hundredths < 0 ? "-" : "",
		       (unsigned long long)(n / 100), (unsigned)(n % 100));
	return amount;
}

/* An amount in a column, whose heading has the unit: what is there is never 0. */
static struct amount cell(int64_t hundredths, int64_t bytes)
{
	static const struct amount none = {"0"}, little = {"<0.01"};

	return hundredths ? amount_of(hundredths) : bytes ? little : none;
}

static struct amount cell_of(const struct text *text, int part)
{
	return cell(text->part[part], text->part_bytes[part]);
}

/* An amount in a sentence, in the unit of the columns unless it is too small: "30.00 MiB". */
static struct amount amount(const struct text *text, uint64_t bytes)
{
	int64_t unit = text->unit;
	struct amount amount;

	while (unit > 1 && (int64_t)bytes < (unit == KIB ? KIB : unit / 100))
		unit >>= 10;
	if (unit == 1)
		(void)snprintf(amount.text, sizeof(amount.text), "%llu B",
			       (unsigned long long)bytes);
	else
		(void)snprintf(amount.text, sizeof(amount.text), "%.22s %s",
			       amount_of(cm_oom_hundredths((int64_t)bytes, unit)).text,
			       unit == GIB   ? "GiB"
			       : unit == MIB ? "MiB"
					     : "KiB");
	return amount;
}

/* The sum of two or three parts (PARTS: none), as their columns add up. */
static struct amount amount_of_parts(const struct text *text, int one, int two, int three)
{
	const int parts[] = {one, two, three};
	int64_t hundredths = 0, bytes = 0;
	struct amount sum;
	size_t i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i] == PARTS)
			continue;
		hundredths += text->part[parts[i]];
		bytes += text->part_bytes[parts[i]];
	}
	if (!hundredths)
		return amount(text, (uint64_t)bytes);
	(void)snprintf(sum.text, sizeof(sum.text), "%.27s %s", amount_of(hundredths).text,
		       text->unit_name);
	return sum;
}

#define ADD(to, ...) \
	((to)->length = cm_text_append((to)->bytes, TEXT_BYTES, (to)->length, __VA_ARGS__))

/* A line of the report after the first. */
#define LINE(to, format, ...) ADD(to, "==%d==" format "\n", (to)->pid, ##__VA_ARGS__)

static const char *name_of(enum cm_oom_verdict verdict)
{
	switch (verdict) {
	case CM_OOM_TOO_BIG:
		return "TOO BIG";
	case CM_OOM_LIMIT:
		return "LIMIT";
	case CM_OOM_CAPTURE:
		return "CAPTURE";
	case CM_OOM_DRIVER:
		return "DRIVER";
	case CM_OOM_FRAGMENTED:
		return "FRAGMENTED";
	case CM_OOM_OTHER_PROCESSES:
		return "OTHERS";
	case CM_OOM_FULL:
		break;
	}
	return "FULL";
}

/* Without the driver's free memory there are no figures to judge most causes by. */
static enum cm_oom_verdict verdict_of(const struct cm_oom *oom)
{
	const enum cm_oom_verdict verdict = cm_oom_judge(&oom->figures);

	if (oom->captured)
		return verdict == CM_OOM_TOO_BIG || verdict == CM_OOM_LIMIT ? verdict
									    : CM_OOM_CAPTURE;
	return oom->info_error ? CM_OOM_DRIVER : verdict;
}

/* Free or cached. */
static struct amount available(const struct text *text)
{
	return amount_of_parts(text, FREE, CACHED, PARTS);
}

/* An amount that is unknown if the driver did not report free memory. */
static struct amount if_known(const struct cm_oom *oom, struct amount known)
{
	const struct amount unknown = {"?"};

	return oom->info_error ? unknown : known;
}

static int64_t largest_block(const struct cm_oom *oom)
{
	return oom->figures.free > oom->largest ? oom->figures.free : oom->largest;
}

/* What counts towards the limit. */
static struct amount taken(const struct text *text, const struct cm_oom *oom)
{
	const int64_t *bytes = text->part_bytes, managed = oom->figures.managed;

	if (!managed)
		return amount_of_parts(text, USED, CACHED, UNCACHED);
	return amount(text, (uint64_t)(bytes[USED] + bytes[CACHED] + bytes[UNCACHED] + managed));
}

/* Complete in itself, for searches in logs. */
CM_NOINLINE static void add_first_line(struct text *text, const struct cm_oom *oom)
{
	const enum cm_oom_verdict verdict = verdict_of(oom);

	ADD(text, "cudamem[%d]: out of memory on GPU %d: requested %s%s%s, ", text->pid,
	    oom->ordinal, amount(text, oom->bytes).text, oom->kind ? " of " : "",
	    oom->kind ? oom->kind : "");
	if (verdict == CM_OOM_LIMIT)
		ADD(text, "limit %s, of which %s is taken",
		    amount(text, (uint64_t)oom->figures.limit).text, taken(text, oom).text);
	else
		ADD(text, "largest block %s, free and cached %s",
		    if_known(oom, amount(text, (uint64_t)largest_block(oom))).text,
		    if_known(oom, available(text)).text);
	ADD(text, " (%s)%s\n", name_of(verdict),
	    oom->nth == LINES_MAX ? "; later failures are not reported" : "");
}

static void add_reason(struct text *text, const struct cm_oom *oom)
{
	const struct cm_oom_figures *figures = &oom->figures;
	const enum cm_oom_verdict verdict = verdict_of(oom);
	const char *name = name_of(verdict);

	switch (verdict) {
	case CM_OOM_TOO_BIG:
		LINE(text, " Why it failed: %s: the GPU has %s in total", name,
		     amount(text, (uint64_t)figures->total).text);
		break;
	case CM_OOM_LIMIT:
		LINE(text, " Why it failed: %s: this process may have %s, and has %s", name,
		     amount(text, (uint64_t)figures->limit).text, taken(text, oom).text);
		break;
	case CM_OOM_CAPTURE:
		LINE(text,
		     " Why it failed: %s: while a stream is captured what is cached, %s, stays so",
		     name, amount_of_parts(text, CACHED, PARTS, PARTS).text);
		break;
	case CM_OOM_DRIVER:
		if (oom->info_error)
			LINE(text,
			     " Why it failed: %s: it does not report free memory either (error %d)",
			     name, oom->info_error);
		else
			LINE(text,
			     " Why it failed: %s: %s is free, and the driver refused (error 2)",
			     name, amount_of_parts(text, FREE, PARTS, PARTS).text);
		break;
	case CM_OOM_FRAGMENTED:
		LINE(text, " Why it failed: %s: %s is free or cached, but not in one block", name,
		     available(text).text);
		break;
	case CM_OOM_OTHER_PROCESSES:
		LINE(text, " Why it failed: %s: other processes hold %s; without them it would fit",
		     name, amount(text, (uint64_t)cm_oom_others(figures)).text);
		break;
	case CM_OOM_FULL:
		LINE(text, " Why it failed: %s: this program uses %s, only %s is free or cached",
		     name, amount_of_parts(text, USED, UNCACHED, PARTS).text, available(text).text);
		break;
	}
}

static void add_attempt(struct text *text, const struct cm_oom *oom)
{
	if (oom->kind) {
		LINE(text, "   Tried: %s%s", oom->figures.limited ? "the limit" : "the driver",
		     oom->captured ? "" : ", again after cached memory was released");
		return;
	}
	if (oom->busy)
		LINE(text, "   Tried: the cache, the driver; work on the GPU does not end, so no "
			   "cached memory could be released");
	else
		LINE(text, "   Tried: the cache, waiting for freed memory, releasing (%s), %s",
		     amount(text, (uint64_t)oom->given_back).text,
		     oom->figures.limited ? "no more from the driver"
		     : oom->given_back    ? "the driver again"
					  : "the driver");
	if (oom->peers.asked)
		LINE(text, "   Asked %u other process%s under cudamem, got %s", oom->peers.asked,
		     oom->peers.asked == 1 ? "" : "es", amount(text, oom->peers.given_bytes).text);
	else
		LINE(text, "   Asked no other process%s",
		     oom->peers.count ? ": none has idle memory" : "");
}

static void add_peers(struct text *text, const struct cm_oom *oom)
{
	const struct cm_peers *peers = &oom->peers;
	char name[24];

	(void)cm_text_clean(name, sizeof(name), peers->most_comm);
	if (peers->most_pid)
		LINE(text, " %9s  other processes under cudamem: %u (most has %d %s, %s)",
		     cell_of(text, PEERS).text, peers->count, (int)peers->most_pid, name,
		     amount(text, peers->most_bytes).text);
	else
		LINE(text, " %9s  other processes under cudamem", cell_of(text, PEERS).text);
}

static void add_budget(struct text *text, const struct cm_oom *oom)
{
	const struct cm_oom_figures *figures = &oom->figures;

	LINE(text, " Where GPU %d went: %s, %s", oom->ordinal, oom->device_name,
	     amount(text, (uint64_t)figures->total).text);
	LINE(text, " %9s  allocated by this program, %lld block%s (%s of it rounding)",
	     cell_of(text, USED).text, (long long)oom->blocks, oom->blocks == 1 ? "" : "s",
	     amount(text, (uint64_t)oom->rounding).text);
	LINE(text, " %9s  cached by this program, in blocks too small (largest %s)",
	     cell_of(text, CACHED).text, amount(text, (uint64_t)oom->largest).text);
	LINE(text, " %9s  this program outside the cache (pools, arrays, mapped memory ...)",
	     cell_of(text, UNCACHED).text);
	add_peers(text, oom);
	LINE(text, " %9s  contexts and libraries, processes without cudamem",
	     if_known(oom, cell_of(text, REST)).text);
	LINE(text, " %9s  free", if_known(oom, cell_of(text, FREE)).text);
	if (figures->limited && figures->managed)
		LINE(text, " Beside these %s of managed memory count towards the limit",
		     amount(text, (uint64_t)figures->managed).text);
}

static void add_cached(struct text *text, const struct cm_oom *oom)
{
	enum { FRAGMENTED, RELEASABLE, PENDING, COUNT };
	const int64_t part[COUNT] = {
		[FRAGMENTED] = oom->figures.fragmented,
		[RELEASABLE] = oom->figures.releasable,
		[PENDING] = oom->figures.pending,
	};
	int64_t n[COUNT];

	cm_oom_share(part, COUNT, text->unit, text->part[CACHED], n);
	LINE(text, " What is cached, in %s", text->unit_name);
	LINE(text, " %9s  fragmented: in segments with live blocks",
	     cell(n[FRAGMENTED], part[FRAGMENTED]).text);
	LINE(text, " %9s  releasable: in segments without live blocks",
	     cell(n[RELEASABLE], part[RELEASABLE]).text);
	LINE(text, " %9s  pending free: the GPU may still use it",
	     cell(n[PENDING], part[PENDING]).text);
}

/* What the blocks of a holder have in common. */
static void name_holder(const struct cm_oom_holders *holders, const struct cm_oom_holder *holder,
			char name[NAME_BYTES])
{
	if (!holders->by_stack)
		(void)snprintf(name, NAME_BYTES, "of %s",
			       cm_bytes_format((int64_t)holder->key).text);
	else if (holder->key)
		cm_frames_describe((uint32_t)holder->key, name, NAME_BYTES);
	else
		(void)snprintf(name, NAME_BYTES, "allocated before stacks were recorded");
}

static void add_holders(struct text *text, const struct cm_oom *oom)
{
	const struct cm_oom_holders *holders = &oom->holders;
	int64_t part[CM_OOM_HOLDERS + 1], n[CM_OOM_HOLDERS + 1];
	char name[NAME_BYTES];
	uint32_t i;

	for (i = 0; i < CM_OOM_HOLDERS; i++)
		part[i] = holders->top[i].bytes;
	if (!holders->top[0].bytes)
		return; /* nobody */
	LINE(text, "");
	part[CM_OOM_HOLDERS] = holders->rest.bytes;
	cm_oom_share(part, CM_OOM_HOLDERS + 1, text->unit, text->part[USED], n);
	LINE(text, " Who holds the %s allocated, by %s",
	     amount_of_parts(text, USED, PARTS, PARTS).text,
	     holders->by_stack ? "stack" : "block size");
	for (i = 0; i < CM_OOM_HOLDERS && holders->top[i].bytes; i++) {
		name_holder(holders, &holders->top[i], name);
		LINE(text, " %9s  %6lld %s", cell(n[i], part[i]).text,
		     (long long)holders->top[i].blocks, name);
	}
	if (holders->rest.blocks)
		LINE(text, " %9s  %6lld of other %s",
		     cell(n[CM_OOM_HOLDERS], part[CM_OOM_HOLDERS]).text,
		     (long long)holders->rest.blocks, holders->by_stack ? "stacks" : "sizes");
}

/* Of a capture no more can be told, since the driver was not asked what is free. */
static void add_remedy_of_capture(struct text *text, const struct cm_oom *oom)
{
	const bool fits = cm_oom_cached(&oom->figures) >= oom->figures.asked;

	LINE(text, " What would have made it fit, in %s", text->unit_name);
	LINE(text, "   %-3s  %-41s %9s available", fits ? "yes" : "?",
	     "the same request before the capture", cell_of(text, CACHED).text);
}

static void add_remedies(struct text *text, const struct cm_oom *oom)
{
	static const char *const what[CM_OOM_REMEDY_COUNT] = {
		[CM_OOM_WITHOUT_LIMIT] = "without its limit (memory_limit_mb)",
		[CM_OOM_ONE_SEGMENT] = "free and cached memory in one block",
		[CM_OOM_PAGED] = "free pages joined (expandable_segments)",
		[CM_OOM_ALONE] = "without other processes on the GPU",
	};
	const int64_t excess = cm_oom_excess(&oom->figures);
	int64_t bytes;
	uint32_t i;
	bool fits;

	LINE(text, " What would have made it fit, in %s", text->unit_name);
	for (i = 0; i < CM_OOM_REMEDY_COUNT; i++) {
		fits = !oom->info_error && cm_oom_would_fit(&oom->figures, i, &bytes);
		LINE(text, "   %-3s  %-41s %9s available", fits ? "yes" : "no", what[i],
		     oom->info_error ? "?"
				     : cell(cm_oom_hundredths(bytes, text->unit), bytes).text);
	}
	if (oom->info_error)
		LINE(text, "   no   less allocated by this program: ? less");
	else if (!excess)
		LINE(text, "   no   less allocated by this program: there was enough memory");
	else if (excess > oom->figures.live)
		LINE(text, "   no   less allocated by this program: %s less, more than it uses",
		     amount(text, (uint64_t)excess).text);
	else
		LINE(text, "   yes  less allocated by this program: %s less",
		     amount(text, (uint64_t)excess).text);
}

/* The program's command line, for the shell as far as no argument has blanks. */
CM_NOINLINE static void add_command(struct text *text)
{
	const struct cm_region *region = cm_process_region();
	char command[COMMAND_BYTES];

	(void)cm_text_clean(command, sizeof(command), region ? region->header->cmdline : "");
	LINE(text, "   cudamemstat run --oom oom.cudamem --stacks=all -- %s",
	     *command ? command : "COMMAND");
}

/* How to look at the process later. The tool does not look into any other folder by itself. */
CM_NOINLINE static void add_report_command(struct text *text)
{
	static const char usual[] = CM_REGION_DIR "/";
	const struct cm_region *region = cm_process_region();
	const char *path = region ? region->path : "", *end = strrchr(path, '/');
	const bool is_usual = !end || !strncmp(path, usual, sizeof(usual) - 1);

	LINE(text, " Look at it, also when it has ended: cudamemstat report %s%.*s%s%d",
	     is_usual ? "" : "--dir ", is_usual ? 0 : (int)(end - path), path, is_usual ? "" : " ",
	     text->pid);
}

static void add_next_steps(struct text *text, const struct cm_oom *oom)
{
	add_report_command(text);
	LINE(text, " and while it runs: cudamemstat show %d --map", text->pid);
	if (!oom->holders.by_stack) {
		LINE(text, " To see who holds the memory, run it with");
		add_command(text);
	}
	LINE(text, " Later failures get one line each; CUDAMEM_CONF=oom_report:full|line|off");
}

/* Pinned memory: its limits are those of the host, and are not known. */
CM_NOINLINE static void add_host_report(struct text *text, const struct cm_oom *oom)
{
	char at[PLACE_BYTES];

	ADD(text,
	    "cudamem[%d]: out of memory for the host: requested %s of pinned host memory; this "
	    "program holds %s in %lld block%s%s\n",
	    text->pid, amount(text, oom->bytes).text,
	    amount(text, (uint64_t)oom->figures.live).text, (long long)oom->blocks,
	    oom->blocks == 1 ? "" : "s",
	    oom->nth == LINES_MAX ? "; later failures are not reported" : "");
	if (oom->nth > 1)
		return;
	cm_frames_describe(oom->stack, at, sizeof(at));
	LINE(text, "   at %s", at);
	LINE(text, "   Tried: the cache, the driver, again after cached pinned and GPU memory was "
		   "released");
	add_report_command(text);
}

CM_NOINLINE static void add_report(struct text *text, const struct cm_oom *oom)
{
	char at[PLACE_BYTES];

	LINE(text, " %llu bytes in thread %u; the program gets CUDA_ERROR_OUT_OF_MEMORY (2)",
	     (unsigned long long)oom->bytes, cm_thread_id());
	cm_frames_describe(oom->stack, at, sizeof(at));
	LINE(text, "   at %s", at);
	LINE(text, "");
	add_reason(text, oom);
	add_attempt(text, oom);
	LINE(text, "");
	add_budget(text, oom);
	LINE(text, "");
	add_cached(text, oom);
	add_holders(text, oom);
	LINE(text, "");
	if (oom->captured)
		add_remedy_of_capture(text, oom);
	else
		add_remedies(text, oom);
	LINE(text, "");
	add_next_steps(text, oom);
}

static void init_text(struct text *text, const struct cm_oom_figures *figures)
{
	const int64_t part[PARTS] = {
		[USED] = figures->live,      [CACHED] = cm_oom_cached(figures),
		[UNCACHED] = figures->other, [PEERS] = figures->peers,
		[FREE] = figures->free,      [REST] = cm_oom_outside(figures),
	};
	const bool large = (figures->limited ? figures->limit : figures->total) >= LARGE_DEVICE;
	size_t i;

	for (i = 0; i < PARTS; i++)
		text->part_bytes[i] = part[i];
	text->length = 0;
	text->pid = (int)getpid();
	text->unit = large ? GIB : MIB;
	text->unit_name = large ? "GiB" : "MiB";
	cm_oom_share(part, PARTS, text->unit, cm_oom_hundredths(figures->total, text->unit),
		     text->part);
}

/* What is said here can then be looked up after the end, as after a crash. A sweep removes it. */
static void keep_region(void)
{
	struct cm_region *region = cm_process_region();

	if (region)
		__atomic_store_n(&region->keep, true, __ATOMIC_RELAXED);
}

void cm_oom_message_print(const struct cm_oom *oom)
{
	struct text *text;

	if (oom->nth > LINES_MAX)
		return;
	/* Not on the stack, which may be small. */
	text = mmap(NULL, sizeof(*text), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (text == MAP_FAILED)
		return;
	init_text(text, &oom->figures);
	if (oom->served) {
		ADD(text, "cudamem[%d]: the %s on GPU %d were allocated at a later try\n",
		    text->pid, amount(text, oom->bytes).text, oom->ordinal);
	} else {
		if (oom->host)
			add_host_report(text, oom);
		else
			add_first_line(text, oom);
		if (oom->has_holders)
			add_report(text, oom);
	}
	if (cm_log_text(CM_LOG_WARNING, text->bytes, text->length) && !oom->served)
		keep_region();
	(void)munmap(text, sizeof(*text));
}
