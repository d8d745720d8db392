/* SPDX-License-Identifier: MIT */
#include "deed.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "kernel.h"
#include "plan.h"
#include "stream.h"
#include "work.h"

/* Of one thing that is kept. The order of it would be lost with it, so there is no going on. */
static void *allocate(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		abort();
	return memory;
}

/* The first look loads the unwinder, which allocates and looks up symbols. */
void sim_place_prepare(void)
{
	void *frame;

	(void)backtrace(&frame, 1);
}

/* This library, from its first byte to its last. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_own(const void *frame)
{
	return (const char *)frame >= __ehdr_start && (const char *)frame < _end;
}

/* Of the simulator's own calls there are at most so many. */
enum { OWN_FRAMES = 16 };

struct sim_place *sim_place_here(void)
{
	void *frames[OWN_FRAMES + SIM_MAX_FRAMES];
	int depth = sim_plan.frames ? backtrace(frames, OWN_FRAMES + sim_plan.frames) : 0;
	struct sim_place *place;
	int own = 0;

	while (own < depth && is_own(frames[own]))
		own++;
	depth -= own;
	if (depth > sim_plan.frames)
		depth = sim_plan.frames;
	place = allocate(sizeof(*place) + (size_t)depth * sizeof(frames[0]));
	place->refs = 1;
	place->thread = sim_thread_self()->id;
	place->depth = (unsigned)depth;
	memcpy(place->frames, &frames[own], (size_t)depth * sizeof(frames[0]));
	return place;
}

void sim_place_unref(struct sim_place *place)
{
	if (place && --place->refs == 0)
		free(place);
}

static void print_frame(FILE *file, const void *frame, const char *lead)
{
	Dl_info info;
	const char *name;

	if (!dladdr(frame, &info) || !info.dli_fname) {
		fprintf(file, "%s%p\n", lead, frame);
		return;
	}
	name = strrchr(info.dli_fname, '/');
	fprintf(file, "%s%s+0x%zx", lead, name ? name + 1 : info.dli_fname,
		(size_t)((const char *)frame - (const char *)info.dli_fbase));
	if (info.dli_sname)
		fprintf(file, " (%s)", info.dli_sname);
	fputc('\n', file);
}

void sim_place_print(FILE *file, const struct sim_place *place, const char *lead)
{
	for (unsigned i = 0; i < place->depth; i++)
		print_frame(file, place->frames[i], lead);
}

static void describe(const struct sim_op *op, char *text, size_t room)
{
	static const char *const names[] = {
		[SIM_OP_MARK] = "mark",
		[SIM_OP_COPY] = "copy",
		[SIM_OP_FILL] = "fill",
		[SIM_OP_HOST] = "host function",
		[SIM_OP_WAIT_VALUE] = "wait for a value",
		[SIM_OP_WRITE_VALUE] = "write of a value",
		[SIM_OP_FREE] = "free",
		[SIM_OP_POST] = "record for other processes",
		[SIM_OP_AWAIT] = "wait for another process",
	};

	if (op->kind == SIM_OP_KERNEL)
		snprintf(text, room, "kernel '%.24s'", op->u.kernel->kernel.name);
	else
		snprintf(text, room, "%s", names[op->kind]);
}

struct sim_deed *sim_deed_of_work(const struct sim_work *work, const struct sim_stream *stream,
				  bool by_graph)
{
	struct sim_deed *deed = allocate(sizeof(*deed));

	deed->refs = 1;
	deed->by_graph = by_graph;
	describe(&work->op, deed->what, sizeof(deed->what));
	deed->stream = stream->object.id;
	deed->stream_flags = stream->flags;
	deed->legacy = stream == stream->ctx->legacy;
	deed->ctx = work->ctx->object.id;
	deed->device = work->ctx->device->ordinal;
	deed->place = sim_place_here();
	return deed;
}

struct sim_deed *sim_deed_of_host(const char *what)
{
	struct sim_deed *deed = allocate(sizeof(*deed));

	deed->refs = 1;
	deed->by_host = true;
	snprintf(deed->what, sizeof(deed->what), "%s", what);
	deed->place = sim_place_here();
	return deed;
}

void sim_deed_unref(struct sim_deed *deed)
{
	if (!deed || --deed->refs)
		return;
	sim_place_unref(deed->place);
	free(deed);
}

struct sim_holding *sim_holding_create(uint64_t addr, uint64_t bytes, enum sim_mem_kind kind,
				       enum sim_source source)
{
	struct sim_holding *holding = allocate(sizeof(*holding));

	holding->refs = 1;
	holding->source = source;
	holding->kind = kind;
	holding->addr = addr;
	holding->bytes = bytes;
	holding->got = sim_place_here();
	return holding;
}

void sim_holding_unref(struct sim_holding *holding)
{
	if (!holding || --holding->refs)
		return;
	sim_place_unref(holding->got);
	sim_place_unref(holding->left);
	free(holding);
}
