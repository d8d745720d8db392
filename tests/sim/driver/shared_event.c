/* SPDX-License-Identifier: MIT */
#include "shared_event.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared.h"

enum { PAGE = 4096, ROWS = 8192, ROOM = 60 };

struct row {
	_Atomic uint64_t
		life; /* how often the row was given back, so that an old handle is refused */
	_Atomic uint64_t last;           /* number */
	_Atomic uint64_t complete[ROOM]; /* the greatest of the numbers that fall on it */
	uint64_t unused[2];
};

_Static_assert(PAGE % sizeof(struct row) == 0, "a row lies in one page");
_Static_assert(sizeof(struct sim_shared) <= CU_IPC_HANDLE_SIZE, "a handle holds a description");

struct sim_shared_event {
	unsigned refs;
	struct row *row;
	void *page; /* where it was opened: mapped for it alone; NULL: it is ours */
	struct sim_shared_event *next; /* of those that are unused */
};

/* Of this process. */
static struct {
	int fd;
	struct row *rows; /* NULL: no handle was given out yet */
	unsigned used;
	struct sim_shared_event *unused;
} table;

static bool make_table(void)
{
	void *map = MAP_FAILED;

	if (table.rows)
		return true;
	table.fd = memfd_create("cudasim-events", MFD_CLOEXEC);
	if (table.fd >= 0 && !ftruncate(table.fd, ROWS * sizeof(struct row)))
		map = mmap(NULL, ROWS * sizeof(struct row), PROT_READ | PROT_WRITE, MAP_SHARED,
			   table.fd, 0);
	if (map != MAP_FAILED)
		table.rows = map;
	else if (table.fd >= 0)
		close(table.fd);
	return table.rows;
}

struct sim_shared_event *sim_shared_event_create(void)
{
	struct sim_shared_event *shared = table.unused;

	if (shared) {
		table.unused = shared->next;
	} else {
		if (!make_table() || table.used == ROWS)
			return NULL;
		shared = calloc(1, sizeof(*shared));
		if (!shared)
			return NULL;
		shared->row = &table.rows[table.used++];
	}
	shared->refs = 1;
	return shared;
}

void sim_shared_event_describe(const struct sim_shared_event *shared, CUipcEventHandle *ret_handle)
{
	struct sim_shared what;

	sim_shared_describe_file(&what, table.fd,
				 (uint64_t)(shared->row - table.rows) * sizeof(*shared->row),
				 sizeof(*shared->row));
	what.id = atomic_load(&shared->row->life);
	memset(ret_handle, 0, sizeof(*ret_handle));
	memcpy(ret_handle->reserved, &what, sizeof(what));
}

static void *map_page(const struct sim_shared *what)
{
	int fd = sim_shared_open(what);
	void *page;

	if (fd < 0)
		return NULL;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    (off_t)(what->offset / PAGE * PAGE));
	close(fd);
	return page == MAP_FAILED ? NULL : page;
}

bool sim_shared_event_is_own(const CUipcEventHandle *handle)
{
	struct sim_shared what;

	memcpy(&what, handle->reserved, sizeof(what));
	return what.device == SIM_SHARED_NO_DEVICE && what.pid == getpid();
}

struct sim_shared_event *sim_shared_event_open(const CUipcEventHandle *handle)
{
	struct sim_shared_event *shared;
	struct sim_shared what;

	memcpy(&what, handle->reserved, sizeof(what));
	if (what.device != SIM_SHARED_NO_DEVICE || what.bytes != sizeof(struct row) ||
	    what.offset % sizeof(struct row) || what.offset >= ROWS * sizeof(struct row))
		return NULL;
	shared = calloc(1, sizeof(*shared));
	if (!shared)
		return NULL;
	shared->refs = 1;
	shared->page = map_page(&what);
	if (!shared->page)
		goto err_shared;
	shared->row = (struct row *)shared->page + what.offset % PAGE / sizeof(struct row);
	if (atomic_load(&shared->row->life) == what.id)
		return shared;

	munmap(shared->page, PAGE);
err_shared:
	free(shared);
	return NULL;
}

struct sim_shared_event *sim_shared_event_ref(struct sim_shared_event *shared)
{
	shared->refs++;
	return shared;
}

void sim_shared_event_unref(struct sim_shared_event *shared)
{
	if (!shared || --shared->refs)
		return;
	if (shared->page) {
		munmap(shared->page, PAGE);
		free(shared);
		return;
	}
	/* Not the numbers: who opened the row before may still wait for one. */
	atomic_fetch_add(&shared->row->life, 1);
	shared->next = table.unused;
	table.unused = shared;
}

uint64_t sim_shared_event_record(struct sim_shared_event *shared)
{
	return atomic_fetch_add(&shared->row->last, 1) + 1;
}

uint64_t sim_shared_event_last(const struct sim_shared_event *shared)
{
	return atomic_load(&shared->row->last);
}

void sim_shared_event_complete(struct sim_shared_event *shared, uint64_t number)
{
	_Atomic uint64_t *word = &shared->row->complete[number % ROOM];
	uint64_t old = atomic_load(word);

	while (old < number && !atomic_compare_exchange_weak(word, &old, number))
		;
}

bool sim_shared_event_is_complete(const struct sim_shared_event *shared, uint64_t number)
{
	return atomic_load(&shared->row->complete[number % ROOM]) >= number;
}
