/* SPDX-License-Identifier: MIT */
/*
 * The counters of the region: the writer's side is stats/counters.h, as it is on machines that do
 * not keep stores in order. The reader is another process that copies upwards by system calls: it
 * looks at word after word as stats/reader_counters.c does, between two readings of the number.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#undef __x86_64__
#include "stats/counters.h"
#include "tests/model/model.h"

static struct row {
	uint32_t seq;
	uint32_t pad;
	uint64_t a, b;
	uint32_t stops;
} row, second; /* shards of a device */

static void setup(void)
{
	memset(&row, 0, sizeof(row));
	memset(&second, 0, sizeof(second));
	model_publish(&row.a, 16);
	model_publish(&second.a, 16);
}

static void change(uint64_t to)
{
	cm_seq_begin(&row.seq);
	row.a = to;
	row.b = to;
	cm_seq_end(&row.seq);
}

static void write_once(void)
{
	change(1);
}

static void write_twice(void)
{
	change(1);
	change(2);
}

/* As read_row(), with one try: a torn copy is one that is told to be. */
static void read_once(void)
{
	uint64_t a, b;
	uint32_t before, after;

	before = __atomic_load_n(&row.seq, __ATOMIC_ACQUIRE);
	a = model_peek(&row.a, 8);
	b = model_peek(&row.b, 8);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the next system call */
	after = __atomic_load_n(&row.seq, __ATOMIC_RELAXED);
	if (before == after && !(before & 1))
		MODEL_MUST(a == b && a == before / 2);
}

static void move(void)
{
	cm_seq_begin(&row.seq);
	cm_seq_begin(&second.seq);
	row.a--;
	second.a++;
	cm_seq_end(&second.seq);
	cm_seq_end(&row.seq);
}

/* As the thread that has stopped both shards. */
static void move_twice(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		cm_seq_begin(&row.stops);
		move();
		cm_seq_end(&row.stops);
	}
}

static void move_without_stop(void)
{
	move();
}

/* What is copied, and whether it is of one moment. *ret_stops: read behind it, as it lies. */
static uint64_t copy_row(struct row *from, uint32_t *ret_stops, bool *whole)
{
	const uint32_t before = __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE);
	const uint64_t a = model_peek(&from->a, 8);

	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pread copies upwards */
	*ret_stops = __atomic_load_n(&from->stops, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the next system call */
	*whole &= before == __atomic_load_n(&from->seq, __ATOMIC_RELAXED) && !(before & 1);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return a;
}

/* As cm_reader_read_device(), with one try. */
static void sum_once(void)
{
	bool whole = true;
	uint32_t stops, none;
	uint64_t sum;

	sum = copy_row(&row, &stops, &whole);
	sum += copy_row(&second, &none, &whole);
	if (whole && !(stops & 1) && stops == __atomic_load_n(&row.stops, __ATOMIC_RELAXED))
		MODEL_MUST(sum == 0);
}

static void write_without_begin(void)
{
	row.a = 1;
	row.b = 1;
	__atomic_store_n(&row.seq, 2, __ATOMIC_RELEASE);
}

/* The number is odd, but nothing keeps it before what it announces. */
static void write_without_order(void)
{
	__atomic_store_n(&row.seq, 1, __ATOMIC_RELAXED);
	row.a = 1;
	row.b = 1;
	__atomic_store_n(&row.seq, 2, __ATOMIC_RELEASE);
}

int main(void)
{
	static const struct model_scenario scenarios[] = {
		{"a row is whole or told to be torn",
		 setup,
		 {write_twice, read_once},
		 NULL,
		 2,
		 NULL},
		{"two readers", setup, {write_once, read_once, read_once}, NULL, 2, NULL},
		{"the sum over two shards stays", setup, {move_twice, sum_once}, NULL, 2, NULL},
		{"two shards that are not stopped",
		 setup,
		 {move_without_stop, sum_once},
		 NULL,
		 3,
		 "sum == 0"},
		{"no odd number", setup, {write_without_begin, read_once}, NULL, 3, "a == b"},
		{"an odd number without order",
		 setup,
		 {write_without_order, read_once},
		 NULL,
		 3,
		 "a == b"},
	};

	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
