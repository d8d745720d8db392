/* SPDX-License-Identifier: MIT */
#include "accuse.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

#define LEAD "        "

/* What is beyond them is counted. */
enum { KEPT = 1000, TOLD = 20 };

static char *kept[KEPT];
static uint64_t count;

uint64_t sim_accusations(void)
{
	return count;
}

const char *sim_accusation(uint64_t n)
{
	return n < count && n < KEPT ? kept[n] : NULL;
}

static void print_place(FILE *file, const char *what, const struct sim_place *place)
{
	fprintf(file, "      %s by thread %llu%s\n", what, (unsigned long long)place->thread,
		place->depth ? ", at" : "");
	sim_place_print(file, place, LEAD);
}

static const char *name_kind(const struct sim_holding *holding)
{
	static const char *const names[] = {
		[SIM_MEM_DEVICE] = "device memory",
		[SIM_MEM_ASYNC] = "stream-ordered memory",
		[SIM_MEM_ARRAY] = "an array",
		[SIM_MEM_GRAPH] = "memory of a graph",
		[SIM_MEM_GLOBAL] = "a module's variable",
		[SIM_MEM_HOST] = "pinned memory",
		[SIM_MEM_MANAGED] = "managed memory",
		[SIM_MEM_REGISTERED] = "registered memory",
		[SIM_MEM_IMPORTED] = "imported memory",
		[SIM_MEM_RESERVED] = "addresses",
		[SIM_MEM_MAPPED] = "mapped memory",
	};

	return names[holding->kind];
}

static void print_holding(FILE *file, const struct sim_holding *holding)
{
	fprintf(file, "    of %s 0x%llx, %llu bytes, %s\n", name_kind(holding),
		(unsigned long long)holding->addr, (unsigned long long)holding->bytes,
		holding->source == SIM_FROM_ALLOCATOR ? "from the allocator" : "from the driver");
	print_place(file, "allocated", holding->got);
	if (holding->left)
		print_place(file, "given back", holding->left);
}

static const char *name_stream(const struct sim_deed *deed)
{
	if (deed->legacy)
		return "the legacy stream";
	return deed->stream_flags & CU_STREAM_NON_BLOCKING ? "non-blocking stream" : "stream";
}

static void print_stream(FILE *file, const struct sim_deed *deed)
{
	fputs(name_stream(deed), file);
	if (!deed->legacy)
		fprintf(file, " %llu", (unsigned long long)deed->stream);
	fprintf(file, " of context %llu", (unsigned long long)deed->ctx);
}

static void print_access(FILE *file, const char *whose, const struct sim_access *access)
{
	const struct sim_deed *deed = access->deed;

	fprintf(file, "  the %s owner's: %s, which %s it", whose, deed->what,
		access->write ? "writes" : "reads");
	if (!deed->by_host) {
		fputs(", in ", file);
		print_stream(file, deed);
		fprintf(file, " on device %d%s", deed->device,
			deed->by_graph ? ", by a graph" : "");
	}
	fputc('\n', file);
	print_place(file, deed->by_host ? "done" : "submitted", deed->place);
	print_holding(file, access->holding);
}

/* Why what orders other work does not order this. */
static void print_missing(FILE *file, const struct sim_access *old, const struct sim_access *new,
			  const struct sim_vector *known)
{
	const struct sim_deed *from = old->deed;
	const struct sim_deed *to = new->deed;
	uint32_t last = sim_vector_at(known, old->line);

	fputs("  missing: nothing makes the second wait for the first.\n    Of ", file);
	print_stream(file, from);
	if (last)
		fprintf(file, " it comes after number %u; the first is number %u.\n", last,
			old->tick);
	else
		fprintf(file, " it comes after nothing; the first is number %u.\n", old->tick);
	if (to->by_host) {
		fputs("    The host goes ahead at once, so it must have been told that "
		      "the work is done\n    (an event queried or waited for, by the allocator "
		      "or by the thread that gave it back); a barrier\n    on the device does "
		      "not hold the host.\n",
		      file);
		return;
	}
	fputs("    An event recorded after the first and waited for before the second would do, or "
	      "a wait of the host.\n",
	      file);
	if (from->ctx != to->ctx)
		fputs("    They are in different contexts, and a barrier of one does not hold the "
		      "other.\n",
		      file);
	else if ((from->stream_flags | to->stream_flags) & CU_STREAM_NON_BLOCKING)
		fputs("    The legacy stream does not order non-blocking streams.\n", file);
}

/* For good: a handler of the program's would go on with the driver's lock held. */
static _Noreturn void stop(void)
{
	(void)signal(SIGABRT, SIG_DFL);
	abort();
}

static void keep(char *text)
{
	if (count < TOLD)
		fputs(text, stderr);
	if (count == TOLD)
		fputs("cudasim: more is found, and only counted from here on\n", stderr);
	fflush(stderr);
	if (count < KEPT)
		kept[count] = text;
	else
		free(text);
	count++;
	if (sim_plan.check == SIM_CHECK_STOP)
		stop();
}

/* A text to print to; keep() takes what becomes of it. */
static FILE *begin(char **text, size_t *size)
{
	FILE *file = open_memstream(text, size);

	if (!file)
		abort();
	return file;
}

void sim_accuse_early(const struct sim_access *old, const struct sim_access *new,
		      const struct sim_vector *known)
{
	char *text;
	size_t size;
	FILE *file = begin(&text, &size);

	fputs("cudasim: memory is reused too early: two owners may touch it at the same time\n",
	      file);
	print_access(file, "old", old);
	print_access(file, "new", new);
	print_missing(file, old, new, known);
	fclose(file);
	keep(text);
}

void sim_accuse_twice(const struct sim_holding *old, const struct sim_holding *new)
{
	char *text;
	size_t size;
	FILE *file = begin(&text, &size);

	fputs("cudasim: memory is allocated that has an owner\n  the owner's\n", file);
	print_holding(file, old);
	fputs("  the new one's\n", file);
	print_holding(file, new);
	fclose(file);
	keep(text);
}

void sim_accuse_return(const struct sim_holding *old)
{
	struct sim_place *here = sim_place_here();
	char *text;
	size_t size;
	FILE *file = begin(&text, &size);

	fputs("cudasim: memory that has an owner is given back to the driver\n  the owner's\n",
	      file);
	print_holding(file, old);
	print_place(file, "freed in the driver", here);
	sim_place_unref(here);
	fclose(file);
	keep(text);
}
