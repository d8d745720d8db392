/* SPDX-License-Identifier: MIT */
#include "card.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"

enum { ROWS = 64 };

/*
 * One row a process. A process locks the byte of its row for as long as it lives, and the first
 * byte while it reads or writes: the kernel undoes both when the process dies.
 */
struct ledger {
	uint64_t used[ROWS][SIM_MAX_DEVICES];
};

static struct {
	int fd;
	int row;
	struct ledger *ledger; /* NULL: none was joined */
} card;

static int lock(short type, int byte, bool wait)
{
	struct flock what = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int err;

	do
		err = fcntl(card.fd, wait ? F_SETLKW : F_SETLK, &what) ? -errno : 0;
	while (err == -EINTR);
	return err;
}

static void open_book(void)
{
	(void)lock(F_WRLCK, 0, true);
}

static void close_book(void)
{
	(void)lock(F_UNLCK, 0, true);
}

static bool is_alive(int row)
{
	struct flock who = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = row + 1, .l_len = 1};

	return !fcntl(card.fd, F_GETLK, &who) && who.l_type != F_UNLCK;
}

static int take_row(void)
{
	for (int row = 0; row < ROWS; row++) {
		if (lock(F_WRLCK, row + 1, false))
			continue;
		card.row = row;
		for (int device = 0; device < SIM_MAX_DEVICES; device++)
			card.ledger->used[row][device] = 0;
		return 0;
	}
	return -ENOSPC;
}

int sim_card_join(const char *path)
{
	void *map;
	int err;

	card.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (card.fd < 0)
		return -errno;
	if (ftruncate(card.fd, sizeof(struct ledger)))
		return -errno;
	map = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED, card.fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	card.ledger = map;
	open_book();
	err = take_row();
	close_book();
	return err;
}

static uint64_t sum_others(int device)
{
	uint64_t sum = 0;

	for (int row = 0; row < ROWS; row++)
		if (row != card.row && card.ledger->used[row][device] && is_alive(row))
			sum += card.ledger->used[row][device];
	return sum;
}

bool sim_card_enter(int device, uint64_t used, uint64_t limit)
{
	bool fits = true;

	if (!card.ledger)
		return true;
	open_book();
	if (used > card.ledger->used[card.row][device])
		fits = used + sum_others(device) <= limit;
	if (fits)
		card.ledger->used[card.row][device] = used;
	close_book();
	return fits;
}

uint64_t sim_card_identity(void)
{
	struct stat st;

	if (!card.ledger || fstat(card.fd, &st))
		return (uint64_t)getpid();
	return (uint64_t)st.st_ino << 4 ^ st.st_dev;
}

uint64_t sim_card_others(int device)
{
	uint64_t sum;

	if (!card.ledger)
		return 0;
	open_book();
	sum = sum_others(device);
	close_book();
	return sum;
}
