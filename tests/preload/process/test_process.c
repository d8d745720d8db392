/* SPDX-License-Identifier: MIT */
/*
 * The life of a process under the whole library and the simulated driver. Each case plays a role of
 * this program with the library preloaded; paths come in as MODULE and DRIVER.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/cudamem.h"
#include "stats/finder.h"
#include "tests/preload/api.h"
#include "tests/preload/driver.h"
#include "tests/preload/play.h"
#include "tests/unit/cmocka_all.h"

#define MIB UINT64_C(1048576)

/* ---- what a role works with ---- */

static struct cm_driver cuda;

static CUdeviceptr alloc(uint64_t bytes)
{
	CUdeviceptr address = 0;

	CM_MUST(cuda.alloc(&address, bytes) == CUDA_SUCCESS);
	return address;
}

static struct cm_api api;

/* ---- roles ---- */

/* Among the open files, those that it was started with included. */
static bool has_file_of_ours(void)
{
	char name[32], target[PATH_MAX];
	bool found = false;
	ssize_t n;
	int fd;

	for (fd = 0; fd < 1024 && !found; fd++) {
		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		found = strstr(target, "/cudamem.") || strstr(target, "memfd:cudamem");
	}
	return found;
}

CM_ROLE(idle)
{
	CM_MUST(cm_rerun_is_mapped("libcudamem.so"));
	CM_MUST(!cm_rerun_is_mapped("libcuda.so"));
	CM_MUST(cm_count_regions() == 0);
	CM_MUST(cm_count_entries("/proc/self/task", "") == 1);
	CM_MUST(!has_file_of_ours());
}

CM_ROLE(first_allocation)
{
	CUdeviceptr block;

	cm_driver_open(&cuda, 1);
	block = alloc(MIB);
	CM_MUST(has_file_of_ours());
	CM_MUST(cm_count_regions() == 1);
	CM_MUST(cuda.free(block) == CUDA_SUCCESS);
}

static unsigned visits;
static char last_key[128];
static int64_t allocated_current, num_device_alloc, forwarded_allocs;

static void visit(void *data, const char *key, int64_t value)
{
	CM_MUST(data == &visits);
	CM_MUST(strcmp(last_key, key) < 0);
	(void)snprintf(last_key, sizeof(last_key), "%s", key);
	if (!strcmp(key, "allocated_bytes.all.current"))
		allocated_current = value;
	if (!strcmp(key, "num_device_alloc"))
		num_device_alloc = value;
	if (!strcmp(key, "forwarded_allocs"))
		forwarded_allocs = value;
	visits++;
}

CM_ROLE(api_before)
{
	uint64_t free_bytes = 1, total_bytes = 1;
	char text[8] = "";

	cm_api_open(&api);
	api.empty_cache();
	api.reset_peak_memory_stats(0);
	api.reset_accumulated_memory_stats(CUDAMEM_CURRENT_DEVICE);
	CM_MUST(api.memory_allocated(0) == 0 && api.max_memory_allocated(-1) == 0);
	CM_MUST(api.memory_reserved(0) == 0 && api.max_memory_reserved(12345) == 0);
	CM_MUST(api.memory_stats(0, visit, &visits) == 0 && visits == 0);
	CM_MUST(api.memory_stats_json(0, text, sizeof(text)) == 2 && !strcmp(text, "{}"));
	CM_MUST(api.get_memory_info(0, &free_bytes, &total_bytes) == -ENODEV);
	CM_MUST(free_bytes == 0 && total_bytes == 0);
	CM_MUST(api.get_memory_info(0, NULL, NULL) == -ENODEV);
	api.reset_peak_host_memory_stats();
	api.reset_accumulated_host_memory_stats();
	CM_MUST(api.host_memory_stats(visit, &visits) == 0 && visits == 0);
	CM_MUST(api.host_memory_stats_json(text, sizeof(text)) == 2 && !strcmp(text, "{}"));
	CM_MUST(cm_count_regions() == 0);
}

static void check_json(void)
{
	const size_t length = api.memory_stats_json(0, NULL, 0);
	char *text = malloc(length + 1), small[16];

	CM_MUST(text && length > 1000);
	CM_MUST(api.memory_stats_json(0, text, length + 1) == length);
	CM_MUST(strlen(text) == length && text[0] == '{' && text[length - 1] == '}');
	CM_MUST(strstr(text, "\"allocated_bytes.all.current\": 3145728"));
	CM_MUST(api.memory_stats_json(0, small, sizeof(small)) == length);
	CM_MUST(strlen(small) == sizeof(small) - 1 && !strncmp(small, text, sizeof(small) - 1));
	free(text);
}

CM_ROLE(api)
{
	size_t native_free, native_total;
	uint64_t free_bytes, total_bytes;
	CUdeviceptr large, block;

	cm_api_open(&api);
	cm_driver_open(&cuda, 1);
	large = alloc(48 * MIB);
	block = alloc(3 * MIB);
	CM_MUST(api.memory_allocated(CUDAMEM_CURRENT_DEVICE) == 51 * MIB);
	CM_MUST(api.memory_reserved(0) == 68 * MIB);
	CM_MUST(cuda.free(large) == CUDA_SUCCESS);
	CM_MUST(api.memory_allocated(0) == 3 * MIB && api.max_memory_allocated(0) == 51 * MIB);
	CM_MUST(api.memory_reserved(0) == 68 * MIB);

	CM_MUST(api.memory_stats(0, visit, &visits) == visits && visits > 100);
	CM_MUST(allocated_current == (int64_t)(3 * MIB) && num_device_alloc == 2);
	check_json();

	CM_MUST(cuda.info(&native_free, &native_total) == CUDA_SUCCESS);
	CM_MUST(api.get_memory_info(CUDAMEM_CURRENT_DEVICE, &free_bytes, &total_bytes) == 0);
	CM_MUST(free_bytes == native_free && total_bytes == native_total);
	free_bytes = total_bytes = 0;
	CM_MUST(api.get_memory_info(0, &free_bytes, NULL) == 0 && free_bytes == native_free);
	CM_MUST(api.get_memory_info(0, NULL, &total_bytes) == 0 && total_bytes == native_total);

	api.empty_cache();
	CM_MUST(api.memory_reserved(0) == 20 * MIB && api.max_memory_reserved(0) == 68 * MIB);
	api.reset_peak_memory_stats(0);
	CM_MUST(api.max_memory_allocated(0) == 3 * MIB && api.max_memory_reserved(0) == 20 * MIB);
	api.reset_accumulated_memory_stats(0);
	visits = 0;
	last_key[0] = '\0';
	(void)api.memory_stats(0, visit, &visits);
	CM_MUST(num_device_alloc == 0 && allocated_current == (int64_t)(3 * MIB));
	CM_MUST(cuda.free(block) == CUDA_SUCCESS);
}

static struct {
	int64_t current, peak, requests, driver_calls;
} host;

static void visit_host(void *data, const char *key, int64_t value)
{
	CM_MUST(data == &host);
	if (!strcmp(key, "allocated_bytes.current"))
		host.current = value;
	if (!strcmp(key, "allocated_bytes.peak"))
		host.peak = value;
	if (!strcmp(key, "allocated.allocated"))
		host.requests = value;
	if (!strcmp(key, "num_host_alloc"))
		host.driver_calls = value;
}

static void read_host(void)
{
	CM_MUST(api.host_memory_stats(visit_host, &host) > 20);
}

CM_ROLE(host_api)
{
	void *small, *large;
	char text[4096];

	cm_api_open(&api);
	cm_driver_open(&cuda, 1);
	CM_MUST(cuda.host_alloc(&small, MIB, 0) == CUDA_SUCCESS);
	CM_MUST(cuda.host_alloc(&large, 4 * MIB, 0) == CUDA_SUCCESS);
	CM_MUST(cuda.host_free(large) == CUDA_SUCCESS);
	CM_MUST(cuda.host_alloc(&large, 4 * MIB, 0) == CUDA_SUCCESS);
	read_host();
	CM_MUST(host.current == (int64_t)(5 * MIB) && host.peak == (int64_t)(5 * MIB));
	CM_MUST(host.requests == 3 && host.driver_calls == 2);
	CM_MUST(api.host_memory_stats_json(text, sizeof(text)) == strlen(text));
	CM_MUST(strstr(text, "\"allocated_bytes.current\": 5242880"));
	CM_MUST(cuda.host_free(large) == CUDA_SUCCESS);
	api.reset_peak_host_memory_stats();
	api.reset_accumulated_host_memory_stats();
	read_host();
	CM_MUST(host.current == (int64_t)MIB && host.peak == (int64_t)MIB);
	CM_MUST(host.requests == 0 && host.driver_calls == 0);
	CM_MUST(cuda.host_free(small) == CUDA_SUCCESS);
}

CM_ROLE(two_devices)
{
	uint64_t free_bytes, total_bytes;

	cm_api_open(&api);
	cm_driver_open(&cuda, 2);
	(void)alloc(2 * MIB);
	CM_MUST(api.memory_allocated(1) == 0);
	/* Of a device that is not current, by its own context. */
	CM_MUST(api.get_memory_info(1, &free_bytes, &total_bytes) == 0);
	CM_MUST(free_bytes == total_bytes && total_bytes > 0);
	CM_MUST(cuda.set_current(cuda.context[1]) == CUDA_SUCCESS);
	(void)alloc(4 * MIB);
	CM_MUST(api.memory_allocated(CUDAMEM_CURRENT_DEVICE) == 4 * MIB);
	CM_MUST(api.memory_allocated(0) == 2 * MIB && api.memory_allocated(1) == 4 * MIB);
	CM_MUST(api.get_memory_info(0, &free_bytes, &total_bytes) == 0);
	CM_MUST(free_bytes && free_bytes < total_bytes);
	/* No context at all: device 0. */
	CM_MUST(cuda.set_current(NULL) == CUDA_SUCCESS);
	CM_MUST(api.memory_allocated(CUDAMEM_CURRENT_DEVICE) == 2 * MIB);
	CM_MUST(api.memory_allocated(2) == 0 && api.memory_allocated(-7) == 0);
	errno = 0;
	CM_MUST(api.memory_allocated(2) == 0 && errno == EINVAL);
	CM_MUST(api.get_memory_info(2, &free_bytes, &total_bytes) == -EINVAL);
	CM_MUST(free_bytes == 0 && total_bytes == 0);
}

static CUdeviceptr last_block;

static void free_last(void)
{
	CM_MUST(cm_count_regions() == 0); /* the library has said good-bye */
	(void)cuda.free(last_block);
}

/* As a static object does that was made before the first CUDA call. */
CM_ROLE(late_free)
{
	CM_MUST(!atexit(free_last));
	cm_driver_open(&cuda, 1);
	last_block = alloc(MIB);
}

static atomic_uint rounds;

static void *allocate_for_ever(void *arg)
{
	CUdeviceptr block;

	(void)arg;
	(void)cuda.set_current(cuda.context[0]);
	for (;;) {
		if (cuda.alloc(&block, MIB) == CUDA_SUCCESS)
			(void)cuda.free(block);
		atomic_fetch_add(&rounds, 1);
	}
	return NULL;
}

CM_ROLE(busy_exit)
{
	pthread_t thread;
	int i;

	cm_driver_open(&cuda, 1);
	for (i = 0; i < 4; i++)
		CM_MUST(!pthread_create(&thread, NULL, allocate_for_ever, NULL));
	while (atomic_load(&rounds) < 1000)
		(void)sched_yield();
}

/*
 * CUDA does not work in a child that was forked after its start: what it answers is the driver's.
 * It has nothing of ours then, so it may end as it likes.
 */
CM_ROLE(fork)
{
	CUdeviceptr block, other = 0;
	void *pinned = NULL;
	pid_t pid;

	cm_driver_open(&cuda, 1);
	block = alloc(MIB);
	pid = fork();
	if (!pid) {
		CM_MUST(cuda.alloc(&other, MIB) != CUDA_SUCCESS);
		CM_MUST(cuda.host_alloc(&pinned, MIB, 0) != CUDA_SUCCESS);
		CM_MUST(cuda.free(block) != CUDA_SUCCESS);
		CM_MUST(cm_count_regions() == 1);
		CM_MUST(cm_count_entries("/proc/self/task", "") == 1);
		_exit(0);
	}
	cm_wait_for_child(pid);
	CM_MUST(cm_count_regions() == 1);
	CM_MUST(cuda.free(block) == CUDA_SUCCESS);
	CM_MUST(cuda.free(alloc(MIB)) == CUDA_SUCCESS);
}

CM_ROLE(fork_before)
{
	pid_t pid = fork();

	if (!pid) {
		play_first_allocation();
		exit(0);
	}
	cm_wait_for_child(pid);
	play_first_allocation();
}

CM_ROLE(exec)
{
	play_first_allocation();
	cm_rerun_exec("first_allocation");
}

CM_ROLE(child_of_another_kind)
{
	play_first_allocation();
	CM_MUST(system("exec true") == 0);
	CM_MUST(cm_count_regions() == 1);
}

CM_ROLE(thread_end)
{
	play_first_allocation();
	pthread_exit(NULL);
}

/* The state of the main thread, as /proc has it. */
static char main_thread_state(void)
{
	FILE *file = fopen("/proc/self/stat", "re");
	char state = 0;

	CM_MUST(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	(void)fclose(file);
	return state;
}

static void *go_on_alone(void *arg)
{
	while (main_thread_state() != 'Z')
		(void)sched_yield();
	CM_MUST(cm_own_life() == CM_LIFE_RUNNING);
	return arg;
}

CM_ROLE(main_thread_end)
{
	pthread_t thread;

	play_first_allocation();
	CM_MUST(!pthread_create(&thread, NULL, go_on_alone, NULL));
	pthread_exit(NULL);
}

/* A folder with no room, and no file of ours in it at the end. */
CM_ROLE(full_folder)
{
	cm_api_open(&api);
	cm_driver_open(&cuda, 1);
	(void)alloc(3 * MIB);
	CM_MUST(api.memory_allocated(0) == 3 * MIB);
	CM_MUST(cm_count_regions() == 0);
}

/* Room for what a process has at first: what grows later finds none, and is passed on. */
CM_ROLE(filling_folder)
{
	enum { MOST = 100000, BATCH = 250 };
	CUdeviceptr *blocks = calloc(MOST, sizeof(*blocks));
	int i, n = 0;

	CM_MUST(blocks);
	cm_api_open(&api);
	cm_driver_open(&cuda, 1);
	while (!forwarded_allocs && n < MOST) {
		for (i = 0; i < BATCH; i++)
			blocks[n++] = alloc(512);
		last_key[0] = '\0';
		(void)api.memory_stats(0, visit, &visits);
	}
	CM_MUST(forwarded_allocs > 0);
	for (i = 0; i < n; i++)
		CM_MUST(cuda.free(blocks[i]) == CUDA_SUCCESS);
	CM_MUST(api.memory_allocated(0) == 0);
	free(blocks);
}

static void count_open_region(void *data, const struct cm_find *find)
{
	unsigned *count = data;

	*count += find->held;
}

/* In a PID namespace of its own, with the /proc of the one outside: there it is found. */
CM_ROLE(inner)
{
	char outer[32] = {0};
	unsigned count = 0;

	CM_MUST(readlink("/proc/self", outer, sizeof(outer) - 1) > 0);
	CM_MUST(getpid() == 1 && strtol(outer, NULL, 10) > 1);
	play_first_allocation();
	(void)cm_find_regions(NULL, (pid_t)strtol(outer, NULL, 10), count_open_region, &count);
	CM_MUST(count == 1);
}

/* ---- the tests ---- */

CM_PLAY(a_process_without_cuda_has_nothing_more, "idle", "nonsense:1", NULL)
CM_PLAY(an_allocation_makes_the_region_and_exit_removes_it, "first_allocation", "", NULL)
CM_PLAY(the_api_has_nothing_to_tell_before_the_first_call, "api_before", "", NULL)
CM_PLAY(the_api_tells_what_pytorch_tells, "api", "", NULL)
CM_PLAY(the_api_tells_of_pinned_memory, "host_api", "", NULL)
CM_PLAY(the_api_knows_its_devices, "two_devices", "", "CUDASIM=devices:2")
CM_PLAY(a_free_after_our_exit_is_harmless, "late_free", "", NULL)
CM_PLAY(a_forked_child_hears_the_driver, "fork", "", NULL)
CM_PLAY(a_fork_before_cuda_changes_nothing, "fork_before", "", NULL)
CM_PLAY(the_next_program_of_the_process_starts_anew, "exec", "", NULL)
CM_PLAY(a_child_without_cuda_leaves_the_region_alone, "child_of_another_kind", "", NULL)
CM_PLAY(the_last_thread_ends_the_process, "thread_end", "", NULL)
CM_PLAY(a_process_runs_on_without_its_main_thread, "main_thread_end", "", NULL)

CM_PLAY_TEST(exit_is_clean_while_threads_allocate)
{
	int i;

	for (i = 0; i < 20; i++)
		cm_play(state, "busy_exit", "", NULL);
}

static const char *mount_size;

/* A small tmpfs on the folder, seen by the role alone. */
static void mount_small_folder(void)
{
	const char *dir = getenv("REGIONS");

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", dir, "tmpfs", 0, mount_size))
		_exit(77);
}

static bool can_mount(void)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid)
		_exit(unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	return waitpid(pid, &status, 0) == pid && status == 0;
}

CM_PLAY_TEST(a_full_dev_shm_stops_nothing)
{
	/* No room for the header; for it, and for none of the tables. */
	static const char *const sizes[] = {"size=4k", "size=100k"};
	struct cm_play *play = *state;
	size_t i;

	if (!can_mount())
		cm_skip("mounting is not allowed here");
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		mount_size = sizes[i];
		cm_play_under(play, "full_folder", "", NULL, mount_small_folder);
		assert_non_null(
			strstr(play->said, "(No space left on device); kept in shared memory"));
	}
}

/* Goes on as the first process of a new PID namespace; outside it ends as that does. */
static void enter_pid_namespace(void)
{
	int status = 0;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		_exit(77);
	pid = fork();
	if (!pid)
		return;
	_exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static bool can_enter(void)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid)
		_exit(unshare(CLONE_NEWPID) != 0);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

CM_PLAY_TEST(a_region_is_found_from_outside_a_pid_namespace)
{
	if (!can_enter())
		cm_skip("PID namespaces are not allowed here");
	cm_play_under(*state, "inner", "", NULL, enter_pid_namespace);
}

CM_PLAY_TEST(a_dev_shm_that_fills_up_stops_nothing)
{
	struct cm_play *play = *state;

	if (!can_mount())
		cm_skip("mounting is not allowed here");
	mount_size = "size=4200k";
	cm_play_under(play, "filling_folder", "events:0", NULL, mount_small_folder);
}
