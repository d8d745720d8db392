/* SPDX-License-Identifier: MIT */
#include "checker.h"

#include "../cudasim.h"

#include <stdio.h>

#include "accuse.h"
#include "line.h"
#include "owners.h"
#include "plan.h"
#include "state.h"
#include "work.h"

#define EXPORT __attribute__((visibility("default")))

bool sim_checking;

/* What allocators have been told is done. */
static struct sim_vector *allocators_know;
/* What every thread knows: with it a new one begins, for some thread has made it. */
static struct sim_vector *all_know;
/* Whether an effect takes place now, and what comes before it. */
static bool acting;
static struct sim_vector *acting_after;

static struct cudasim_checked counts;

void sim_checker_start(void)
{
	if (sim_plan.check != SIM_CHECK_OFF && !sim_checking)
		sim_place_prepare();
	sim_checking = sim_plan.check != SIM_CHECK_OFF;
}

/* Threads. */

static bool has_knowledge(const struct sim_thread *thread)
{
	return thread->taken && thread->known_by == thread->id;
}

static void meet(struct sim_thread *thread, void *common)
{
	struct sim_vector **slot = common;

	if (!has_knowledge(thread))
		return;
	if (*slot)
		sim_vector_meet(slot, thread->known);
	else
		*slot = sim_vector_ref(thread->known);
}

/* The calling thread, which begins with what all others know. */
static struct sim_thread *self(void)
{
	struct sim_thread *thread = sim_thread_self();
	struct sim_vector *common = NULL;

	if (thread->known_by == thread->id)
		return thread;
	sim_threads_visit(meet, &common);
	sim_vector_join(&all_know, common);
	sim_vector_unref(common);
	sim_vector_store(&thread->known, all_know);
	thread->known_by = thread->id;
	return thread;
}

struct question {
	uint32_t line;
	uint32_t tick;
	bool answer;
};

static void ask(struct sim_thread *thread, void *data)
{
	struct question *question = data;

	if (has_knowledge(thread) && !sim_vector_has(thread->known, question->line, question->tick))
		question->answer = false;
}

bool sim_checker_everybody_knows(uint32_t line, uint32_t tick)
{
	struct question question = {.line = line, .tick = tick, .answer = true};

	(void)self();
	sim_threads_visit(ask, &question);
	if (question.answer)
		sim_vector_set(&all_know, line, tick);
	return question.answer;
}

static void tell(struct sim_thread *thread, void *data)
{
	const struct question *fact = data;

	if (has_knowledge(thread))
		sim_vector_set(&thread->known, fact->line, fact->tick);
}

void sim_checker_tell_everybody(uint32_t line, uint32_t tick)
{
	struct question fact = {.line = line, .tick = tick};

	sim_threads_visit(tell, &fact);
	sim_vector_set(&all_know, line, tick);
}

/* Order. */

void sim_checker_created(struct sim_work *work)
{
	if (sim_checking)
		work->vector = sim_vector_ref(self()->known);
}

void sim_checker_after(struct sim_work *work, const struct sim_work *earlier)
{
	if (sim_checking)
		sim_vector_join(&work->vector, earlier->vector);
}

static void learn(struct sim_vector *works)
{
	struct sim_thread *thread = self();

	sim_vector_join(thread->for_allocator ? &allocators_know : &thread->known, works);
}

void sim_checker_learnt(const struct sim_work *work)
{
	if (sim_checking && work)
		learn(work->vector);
}

void sim_checker_ended(struct sim_vector *works)
{
	if (!sim_checking)
		return;
	sim_vector_join(&self()->known, works);
	sim_vector_join(&allocators_know, works);
}

/* The access comes after all that `known` says: does it after what was inherited? */
static void compare(struct sim_owner *owner, const struct sim_access *access,
		    const struct sim_vector *known)
{
	for (unsigned i = owner->inherited.count; i-- > 0;) {
		const struct sim_access *old = &owner->inherited.items[i];

		counts.comparisons++;
		if (sim_vector_has(known, old->line, old->tick))
			continue;
		sim_accuse_early(old, access, known);
		sim_accesses_remove(&owner->inherited, i);
	}
}

struct submission {
	struct sim_work *work;
	const struct sim_stream *stream;
	uint32_t *line;
	bool by_graph;
	struct sim_access access;
};

/* The first owner's memory that it touches makes the work one of its line. */
static void begin_access(struct submission *submission)
{
	if (submission->access.deed)
		return;
	if (*submission->line == SIM_NO_LINE)
		*submission->line = sim_line_take();
	submission->access.line = *submission->line;
	submission->access.tick = sim_line_next(*submission->line);
	submission->access.deed = sim_deed_of_work(submission->work, submission->stream,
						   submission->by_graph);
}

/* Whether there is an owner who may touch it. */
static bool may_be_touched(const struct sim_owner *owner)
{
	bool may = owner->live && owner->holding->source != SIM_FOR_ALLOCATOR;

	if (may)
		counts.accesses++;
	else
		counts.strays++;
	return may;
}

static void touch(struct sim_owner *owner, void *data)
{
	struct submission *submission = data;

	if (!may_be_touched(owner))
		return;
	begin_access(submission);
	submission->access.holding = owner->holding;
	compare(owner, &submission->access, submission->work->vector);
	sim_owner_add_access(owner, &submission->access);
}

static bool see(const struct sim_touch *run, void *data)
{
	struct submission *submission = data;

	submission->access.write = run->write;
	sim_owners_visit(run->addr, run->bytes, touch, data);
	return true;
}

void sim_checker_submitted(struct sim_work *work, const struct sim_stream *stream, uint32_t *line,
			   bool by_graph)
{
	struct submission submission = {
		.work = work, .stream = stream, .line = line, .by_graph = by_graph};

	if (!sim_checking)
		return;
	(void)sim_op_visit(&work->op, see, &submission);
	if (!submission.access.deed)
		return;
	sim_vector_set(&work->vector, submission.access.line, submission.access.tick);
	sim_deed_unref(submission.access.deed);
}

/* Owners. */

void sim_checker_acts(struct sim_vector *works)
{
	acting = true;
	acting_after = works;
}

void sim_checker_acted(void)
{
	acting = false;
}

/* What whoever allocates or gives back now knows. */
static struct sim_known known_now(enum sim_source source)
{
	const struct sim_thread *thread = self();
	struct sim_known known = {.thread = acting ? acting_after : thread->known};

	if (source == SIM_FROM_ALLOCATOR || thread->for_allocator)
		known.allocator = allocators_know;
	return known;
}

/* The CPU of the new owner, at the first moment it can. */
static void touch_by_host(struct sim_owner *owner, const char *what, bool write,
			  const struct sim_vector *known)
{
	struct sim_access access = {.write = write, .holding = owner->holding};

	if (!owner->inherited.count)
		return;
	access.deed = sim_deed_of_host(what);
	compare(owner, &access, known);
	sim_deed_unref(access.deed);
}

static void record_allocation(uint64_t addr, uint64_t bytes, enum sim_mem_kind kind,
			      enum sim_source source, bool on_host)
{
	const struct sim_known known = known_now(source);
	struct sim_holding *conflict;
	struct sim_holding *holding = sim_holding_create(addr, bytes, kind, source);
	struct sim_owner *owner = sim_owners_allocate(holding, &known, &conflict);

	counts.allocations++;
	if (conflict)
		sim_accuse_twice(conflict, holding);
	sim_holding_unref(conflict);
	if (on_host)
		touch_by_host(owner, "the CPU", true, known.thread);
}

/* Reserved addresses are no memory: what is mapped there will be. */
void sim_checker_allocated(const struct sim_mem *mem)
{
	enum sim_source source = SIM_FROM_DRIVER;

	if (!sim_checking || mem->kind == SIM_MEM_RESERVED || !mem->bytes)
		return;
	if (self()->for_allocator)
		source = SIM_FOR_ALLOCATOR;
	record_allocation(mem->base, mem->bytes, mem->kind, source,
			  source == SIM_FROM_DRIVER &&
				  (mem->kind == SIM_MEM_HOST || mem->kind == SIM_MEM_MANAGED));
}

/* Pages go to others at once, and their addresses to nobody: all that touches them must be over. */
static void must_be_over(struct sim_owner *owner, void *data)
{
	struct sim_access unmapping = {.write = true, .holding = owner->holding};
	struct sim_vector *known = NULL;

	sim_vector_join(&known, data);
	sim_vector_join(&known, owner->left_after);
	unmapping.deed = sim_deed_of_host("the driver, taking its pages away");
	for (unsigned i = 0; i < owner->own.count; i++) {
		if (!sim_vector_has(known, owner->own.items[i].line, owner->own.items[i].tick))
			sim_accuse_early(&owner->own.items[i], &unmapping, known);
	}
	compare(owner, &unmapping, known);
	sim_deed_unref(unmapping.deed);
	sim_vector_unref(known);
}

static void end_ownership(struct sim_owner *owner, void *data)
{
	struct sim_vector *known = data;

	if (owner->live && owner->holding->source == SIM_FROM_ALLOCATOR && self()->for_allocator)
		sim_accuse_return(owner->holding);
	sim_owners_free(owner, known);
}

void sim_checker_freed(const struct sim_mem *mem)
{
	struct sim_known known;
	struct sim_vector *all = NULL;

	if (!sim_checking || mem->kind == SIM_MEM_RESERVED || !mem->bytes)
		return;
	known = known_now(SIM_FROM_DRIVER);
	sim_vector_join(&all, known.thread);
	sim_vector_join(&all, known.allocator);
	if (mem->kind == SIM_MEM_MAPPED && self()->for_allocator)
		sim_owners_visit(mem->base, mem->bytes, must_be_over, all);
	sim_owners_visit(mem->base, mem->bytes, end_ownership, all);
	sim_vector_unref(all);
}

/* What programs and allocators tell. */

EXPORT int cudasim_checking(void)
{
	sim_start();
	return sim_checking;
}

struct host_access {
	const struct sim_vector *known;
	const char *what;
	bool write;
};

static void access_by_host(struct sim_owner *owner, void *data)
{
	const struct host_access *access = data;

	if (!may_be_touched(owner))
		return;
	touch_by_host(owner, access->what, access->write, access->known);
}

static void declare(const void *addr, size_t bytes, const char *what, bool write)
{
	struct host_access access = {.what = what, .write = write};

	sim_start();
	if (!sim_checking || !bytes)
		return;
	sim_lock();
	access.known = sim_self && sim_self->host_call ? sim_self->host_call->vector
						       : self()->known;
	sim_owners_visit((uint64_t)(uintptr_t)addr, bytes, access_by_host, &access);
	sim_unlock();
}

EXPORT void cudasim_host_read(const void *addr, size_t bytes)
{
	declare(addr, bytes, "the CPU", false);
}

EXPORT void cudasim_host_write(const void *addr, size_t bytes)
{
	declare(addr, bytes, "the CPU", true);
}

EXPORT uint64_t cudasim_violations(void)
{
	uint64_t found;

	sim_start();
	sim_lock();
	found = sim_accusations();
	sim_unlock();
	return found;
}

EXPORT size_t cudasim_violation(uint64_t n, char *text, size_t room)
{
	const char *found;
	int length;

	sim_start();
	sim_lock();
	found = sim_accusation(n);
	length = snprintf(text, room, "%s", found ? found : "");
	sim_unlock();
	return length > 0 ? (size_t)length : 0;
}

EXPORT void cudasim_checked(struct cudasim_checked *ret_checked)
{
	sim_start();
	sim_lock();
	*ret_checked = counts;
	ret_checked->lines = sim_lines();
	ret_checked->forgotten = sim_lines_forgotten();
	sim_unlock();
}

EXPORT void cudasim_allocated(const void *addr, size_t bytes, int on_host)
{
	sim_start();
	if (!sim_checking || !bytes)
		return;
	sim_lock();
	record_allocation((uint64_t)(uintptr_t)addr, bytes, on_host ? SIM_MEM_HOST : SIM_MEM_DEVICE,
			  SIM_FROM_ALLOCATOR, on_host);
	sim_unlock();
}

EXPORT int cudasim_freed(const void *addr)
{
	struct sim_owner *owner;
	bool lives;

	sim_start();
	if (!sim_checking)
		return 0;
	sim_lock();
	owner = sim_owners_find_allocated((uint64_t)(uintptr_t)addr);
	lives = owner && owner->live;
	if (lives)
		sim_owners_free(owner, self()->known);
	sim_unlock();
	return lives;
}

EXPORT void cudasim_not_freed(const void *addr)
{
	struct sim_owner *owner;

	sim_start();
	if (!sim_checking)
		return;
	sim_lock();
	owner = sim_owners_find_allocated((uint64_t)(uintptr_t)addr);
	if (owner && !owner->live)
		sim_owners_revive(owner);
	sim_unlock();
}

EXPORT void cudasim_allocator_enter(void)
{
	if (sim_checking && sim_thread_self())
		sim_self->for_allocator++;
}

EXPORT void cudasim_allocator_leave(void)
{
	if (sim_checking && sim_self && sim_self->for_allocator)
		sim_self->for_allocator--;
}

EXPORT void cudasim_allocator_is_told(void)
{
	if (!sim_checking || !sim_thread_self())
		return;
	sim_lock();
	sim_vector_join(&allocators_know, self()->known);
	sim_unlock();
}

static void settle(struct sim_owner *owner, void *unused)
{
	(void)unused;
	sim_accesses_settle(&owner->inherited, allocators_know);
}

EXPORT void cudasim_allocator_settles(void)
{
	sim_start();
	if (!sim_checking)
		return;
	sim_lock();
	sim_owners_visit(0, UINT64_MAX, settle, NULL);
	sim_unlock();
}
