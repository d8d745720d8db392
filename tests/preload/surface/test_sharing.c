/* SPDX-License-Identifier: MIT */
/*
 * Memory shared with other processes, by handles and by files of the kernel, and what a sign of
 * sharing changes. The importer is a real second process, forked before CUDA starts.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define KIB UINT64_C(1024)

/* ---- two processes ---- */

struct command {
	CUipcMemHandle handle;
	uint64_t offset; /* 0 from an exporter who knows of none */
	uint64_t words;
	uint32_t value;
};

struct pair {
	int to_importer[2];
	int to_exporter[2];
	pid_t importer;
};

static void send(const int *ends, const void *data, size_t bytes)
{
	CM_MUST(write(ends[1], data, bytes) == (ssize_t)bytes);
}

/* False: the other end is closed. */
static bool receive(const int *ends, void *data, size_t bytes)
{
	ssize_t n = read(ends[0], data, bytes);

	CM_MUST(!n || n == (ssize_t)bytes);
	return n;
}

/* Checks the first and the last word, and writes others over all. */
static void import(const struct command *command)
{
	CUdeviceptr base, at;

	OK(cuIpcOpenMemHandle_v2(&base, command->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	at = base + command->offset;
	CM_MUST(cm_read_word(at) == command->value);
	CM_MUST(cm_read_word(at + 4 * (command->words - 1)) == command->value);
	OK(cuMemsetD32_v2(at, command->value + 1, command->words));
	OK(cuIpcCloseMemHandle(base));
}

static _Noreturn void be_importer(struct pair *pair)
{
	struct command command;

	(void)close(pair->to_importer[1]);
	(void)close(pair->to_exporter[0]);
	cm_open(0);
	while (receive(pair->to_importer, &command, sizeof(command))) {
		import(&command);
		send(pair->to_exporter, "", 1);
	}
	exit(0);
}

static void begin(struct pair *pair)
{
	CM_MUST(!pipe(pair->to_importer) && !pipe(pair->to_exporter));
	pair->importer = fork();
	if (!pair->importer)
		be_importer(pair);
	(void)close(pair->to_importer[0]);
	(void)close(pair->to_exporter[1]);
	cm_open(0);
}

static void end(struct pair *pair)
{
	(void)close(pair->to_importer[1]);
	cm_wait_for_child(pair->importer);
}

/* What the importer wrote is in the block. */
static void exchange(struct pair *pair, const struct command *command, CUdeviceptr addr)
{
	char done;

	send(pair->to_importer, command, sizeof(*command));
	CM_MUST(receive(pair->to_exporter, &done, 1));
	CM_MUST(cm_read_word(addr) == command->value + 1);
	CM_MUST(cm_read_word(addr + 4 * (command->words - 1)) == command->value + 1);
}

static struct command fill(CUdeviceptr addr, uint64_t bytes, uint32_t value)
{
	OK(cuMemsetD32_v2(addr, value, bytes / 4));
	OK(cuCtxSynchronize());
	return (struct command){.words = bytes / 4, .value = value};
}

/* By the base of the allocation and the offset in it, as NCCL, UCX and Open MPI do it. */
static void export_aware(struct pair *pair, CUdeviceptr addr, uint64_t bytes, uint32_t value)
{
	struct command command = fill(addr, bytes, value);
	CUdeviceptr base;
	size_t size;

	OK(cuMemGetAddressRange_v2(&base, &size, addr));
	CM_MUST(base <= addr && addr + bytes <= base + size);
	OK(cuIpcGetMemHandle(&command.handle, base));
	command.offset = addr - base;
	exchange(pair, &command, addr);
}

/* As if the handle were that of the pointer, as most programs do it. */
static void export_unaware(struct pair *pair, CUdeviceptr addr, uint64_t bytes, uint32_t value)
{
	struct command command = fill(addr, bytes, value);

	OK(cuIpcGetMemHandle(&command.handle, addr));
	exchange(pair, &command, addr);
}

static const uint64_t sizes[] = {3 * MIB, 4 * KIB, 3 * MIB, 512 * KIB, 64 * KIB, 20 * MIB, 4 * KIB};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void play_exchange(void (*export)(struct pair *pair, CUdeviceptr addr, uint64_t bytes,
					 uint32_t value))
{
	CUdeviceptr block[SIZES];
	struct pair pair;
	uint32_t i, j;

	begin(&pair);
	for (i = 0; i < SIZES; i++) {
		block[i] = cm_get(sizes[i]);
		OK(cuMemsetD32_v2(block[i], 1000 * i, sizes[i] / 4));
	}
	for (i = 0; i < SIZES; i++) {
		export(&pair, block[i], sizes[i], 1000 * i + 7);
		/* The neighbours are as they were. */
		for (j = i + 1; j < SIZES; j++) {
			CM_MUST(cm_read_word(block[j]) == 1000 * j);
			CM_MUST(cm_read_word(block[j] + sizes[j] - 4) == 1000 * j);
		}
	}
	for (i = 0; i < SIZES; i++)
		OK(cuMemFree_v2(block[i]));
	end(&pair);
}

CM_ROLE(aware)
{
	play_exchange(export_aware);
}

CM_ROLE(unaware)
{
	play_exchange(export_unaware);
}

/* Where blocks are pieces of larger allocations, an importer would get the wrong address, as the
 * exporter knows of no offset: no handle, and a word why. */
CM_ROLE(refused)
{
	CUipcMemHandle handle;
	CUdeviceptr first, second, base;

	cm_open(0);
	first = cm_get(3 * MIB);
	second = cm_get(3 * MIB);
	OK(cuMemGetAddressRange_v2(&base, NULL, second + MIB));
	CM_MUST(base == second);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, base) == 0);
	CM_MUST(cuIpcGetMemHandle(&handle, base) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, first) == 1);
	OK(cuIpcGetMemHandle(&handle, first));
}

static CUresult get_file(CUdeviceptr addr, uint64_t bytes, int *ret_fd)
{
	return cuMemGetHandleForAddressRange(ret_fd, addr, bytes,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

/* A file of what is freed is refused, one of the whole allocation is not. */
CM_ROLE(stale_file)
{
	CUdeviceptr first, second;
	int fd = -7, other;

	cm_open(0);
	first = cm_get(3 * MIB);
	second = cm_get(3 * MIB);
	OK(cuMemFree_v2(first));
	CM_MUST(get_file(first, 3 * MIB, &fd) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(get_file(first + MIB, MIB, &fd) == CUDA_ERROR_INVALID_VALUE);
	if (second == first + 3 * MIB) {
		OK(get_file(first, 6 * MIB, &other));
		(void)close(other);
	}
	OK(cuMemFree_v2(second));
	CM_MUST(get_file(second, 3 * MIB, &fd) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(get_file(first, 6 * MIB, &fd) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(fd == -7);
}

/* What is left of it by the cache is nothing to the program, also where the allocation stays. */
CM_ROLE(stale)
{
	CUdeviceptr block, first, second;
	CUipcMemHandle handle, untouched;

	cm_open(0);
	(void)memset(&handle, 7, sizeof(handle));
	untouched = handle;
	block = cm_get(30 * MIB);
	OK(cuMemFree_v2(block));
	CM_MUST(cuIpcGetMemHandle(&handle, block) == CUDA_ERROR_INVALID_VALUE);
	first = cm_get(3 * MIB);
	second = cm_get(3 * MIB);
	OK(cuMemFree_v2(first));
	CM_MUST(cuIpcGetMemHandle(&handle, first) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(second));
	CM_MUST(cuIpcGetMemHandle(&handle, first) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuIpcGetMemHandle(&handle, second) == CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSetCurrent(NULL));
	CM_MUST(cuIpcGetMemHandle(&handle, block) == CUDA_ERROR_INVALID_CONTEXT);
	CM_MUST(!memcmp(&handle, &untouched, sizeof(handle)));
}

/* ---- what a sign of sharing changes ---- */

/* One allocation each: its own base and its own identity, which no other live block has. */
CM_ROLE(own_place)
{
	CUdeviceptr block[SIZES], base;
	uint64_t id[SIZES];
	size_t i, j, size;

	cm_open(0);
	for (i = 0; i < SIZES; i++) {
		block[i] = cm_get(sizes[i]);
		OK(cuMemGetAddressRange_v2(&base, &size, block[i]));
		CM_MUST(base == block[i] && size == sizes[i]);
		CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, base) == 1);
		id[i] = cm_ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, block[i]);
		for (j = 0; j < i; j++)
			CM_MUST(id[j] != id[i]);
	}
}

/* In pieces of one allocation its identity is that of all. */
CM_ROLE(pieces)
{
	CUdeviceptr first, second;

	cm_open(0);
	first = cm_get(3 * MIB);
	second = cm_get(3 * MIB);
	CM_MUST(second == first + 3 * MIB);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, first) ==
		cm_ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, second));
}

/* Not even for the first block of a run of pages; and nothing is lost by asking. */
CM_ROLE(pages)
{
	CUipcMemHandle handle;
	CUdeviceptr first, second;

	cm_open(0);
	first = cm_get(3 * MIB);
	second = cm_get(3 * MIB);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, first) == 0);
	CM_MUST(cuIpcGetMemHandle(&handle, first) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(second));
	CM_MUST(cm_get(3 * MIB) == second);
}

/* A file is of just the range, a piece or not, as long as the host's pages allow. */
CM_ROLE(file_of_a_piece)
{
	CUdeviceptr odd, even;
	int fd = -1;

	cm_open(0);
	(void)cm_get(4 * KIB);
	even = cm_get(4 * KIB);
	(void)cm_get(512);
	odd = cm_get(4 * KIB);
	OK(cuMemGetHandleForAddressRange(&fd, even, 4 * KIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					 0));
	(void)close(fd);
	CM_MUST(cuMemGetHandleForAddressRange(&fd, odd, 4 * KIB,
					      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					      0) == CUDA_ERROR_INVALID_VALUE);
}

/* This program imports cuIpcGetMemHandle, which is a sign of sharing: auto is exact for it. */
CM_PLAY_EVERYWHERE(an_importer_with_the_offset_reads_what_was_written, "aware", NULL)
CM_PLAY_EVERYWHERE(an_importer_without_offset_reads_what_was_written, "unaware", NULL)
CM_PLAY_EVERYWHERE(freed_memory_has_no_handle, "stale", NULL)
CM_PLAY(freed_memory_has_no_handle_in_pieces, "stale", "placement:split", NULL)
CM_PLAY(freed_pages_have_no_handle, "stale", "placement:split,expandable_segments:True", NULL)
CM_PLAY_EVERYWHERE(freed_memory_has_no_file, "stale_file", NULL)
CM_PLAY(freed_memory_has_no_file_in_pieces, "stale_file", "placement:split", NULL)
CM_PLAY(a_sign_of_sharing_makes_placement_exact, "own_place", "placement:auto", NULL)
CM_PLAY(exact_placement_is_native, "own_place", "placement:exact", NULL)
CM_PLAY(native_placement_is_exact, "own_place", NULL, NULL)
CM_PLAY(stats_mode_places_as_natively, "own_place", "mode:stats", NULL)
CM_PLAY(pieces_share_their_identity, "pieces", "placement:split", NULL)

static void must_say(void **state, const char *role, const char *conf, const char *function)
{
	struct cm_play *play = *state;

	cm_play_under(play, role, conf, NULL, NULL);
	assert_non_null(strstr(play->said, function));
	assert_non_null(strstr(play->said, "CUDAMEM_CONF=placement:exact"));
	/* One line. */
	assert_ptr_equal(strchr(play->said, '\n') + 1, play->said + strlen(play->said));
}

CM_PLAY_TEST(a_handle_of_a_piece_is_refused_with_a_word)
{
	must_say(state, "refused", "placement:split", "cuIpcGetMemHandle(");
}

CM_PLAY_TEST(a_file_of_an_odd_piece_is_refused_with_a_word)
{
	must_say(state, "file_of_a_piece", "placement:split", "cuMemGetHandleForAddressRange(");
}

CM_PLAY_TEST(a_handle_of_pages_is_refused_with_a_word)
{
	must_say(state, "pages", "placement:split,expandable_segments:True", "cuIpcGetMemHandle(");
}
