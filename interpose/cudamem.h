/* SPDX-License-Identifier: MIT */
/*
 * cudamem(3): what a program that runs under libcudamem.so can ask it, in C and C++. One function
 * for each of torch.accelerator.memory, with the same meaning, and those of torch.cuda.memory for
 * pinned host memory.
 *
 * A program does not link with the library, which may or may not be preloaded. It looks the
 * functions up:
 *
 * 	__typeof__(cudamem_memory_allocated) *allocated;
 *
 * 	allocated = (__typeof__(allocated))dlsym(RTLD_DEFAULT, "cudamem_memory_allocated");
 * 	if (allocated)
 * 		printf("%llu bytes\n", (unsigned long long)allocated(CUDAMEM_CURRENT_DEVICE));
 *
 * `device` is CUDA's ordinal, or CUDAMEM_CURRENT_DEVICE for the device of the calling thread's
 * context, which the driver reports (0 without a context). Sizes are in bytes. Before the program's
 * first allocation, with mode:off, and for a device without an allocation, functions that return
 * amounts return 0, and nothing changes (errno is EINVAL if the driver has no such device); but
 * recording can be switched, and names nest, from the start. All functions are thread-safe, and
 * none may be called in a signal handler. None creates a context or changes the current one.
 * cudamem_empty_cache and cudamem_get_memory_info call the driver; that one and
 * cudamem_record_memory_history load it if the program has not.
 */
#ifndef CM_INTERPOSE_CUDAMEM_H
#define CM_INTERPOSE_CUDAMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDAMEM_API            __attribute__((visibility("default")))
#define CUDAMEM_CURRENT_DEVICE (-1)

/* One entry of the statistics; `key` is valid during the call only. */
typedef void (*cudamem_stat_fn)(void *data, const char *key, int64_t value);

/* Releases all unused cached memory to the driver, on all devices. Waits until the devices have
 * finished with freed memory. Does nothing while a stream of the process is captured. */
CUDAMEM_API void cudamem_empty_cache(void);

/* Calls `fn` for every entry of the device's statistics, in alphabetical order of the keys: those
 * of PyTorch ("allocated_bytes.all.current", "num_ooms", ...) and our own. Returns their number. */
CUDAMEM_API size_t cudamem_memory_stats(int device, cudamem_stat_fn fn, void *data);

/* The same as a JSON object, for languages that call C with difficulty. Writes at most `bytes`, the
 * terminating zero included, and returns the length of the whole, as snprintf does. */
CUDAMEM_API size_t cudamem_memory_stats_json(int device, char *text, size_t bytes);

/* The same for pinned host memory of the whole process: torch.cuda.host_memory_stats. Times are in
 * microseconds. */
CUDAMEM_API size_t cudamem_host_memory_stats(cudamem_stat_fn fn, void *data);
CUDAMEM_API size_t cudamem_host_memory_stats_json(char *text, size_t bytes);

/* Bytes in allocated blocks: now, and at most since the start or the last reset. */
CUDAMEM_API uint64_t cudamem_memory_allocated(int device);
CUDAMEM_API uint64_t cudamem_max_memory_allocated(int device);

/* Bytes reserved from the driver, allocated or cached: now, and at most since the start or the
 * last reset. */
CUDAMEM_API uint64_t cudamem_memory_reserved(int device);
CUDAMEM_API uint64_t cudamem_max_memory_reserved(int device);

/* Sets "allocated" and "freed" of all statistics, and the counters "num_...", to 0. */
CUDAMEM_API void cudamem_reset_accumulated_memory_stats(int device);

/* Sets the peaks to the present values. */
CUDAMEM_API void cudamem_reset_peak_memory_stats(int device);

/* Both for pinned host memory. */
CUDAMEM_API void cudamem_reset_accumulated_host_memory_stats(void);
CUDAMEM_API void cudamem_reset_peak_host_memory_stats(void);

/*
 * Memory of the device as cudaMemGetInfo reports it to the program: free memory, including what the
 * cache could release, and the total. Returns 0, a CUresult, -EINVAL if there is no such device,
 * -ENODEV if the process has no context on it (one without an allocation counts if it is current),
 * -EBUSY while a stream is captured; both values are 0 unless the result is 0. Either pointer may
 * be NULL, as in cudaMemGetInfo.
 */
CUDAMEM_API int cudamem_get_memory_info(int device, uint64_t *ret_free, uint64_t *ret_total);

/*
 * Like torch.cuda.memory._record_memory_history: sets what is recorded from now on. `enabled`: NULL
 * nothing, "state" what allocated blocks need, "all" events as well. `context`: whose stacks, NULL
 * none, "state" those of allocated blocks, "alloc" all allocations, "all" frees too. `stacks`:
 * "python" Python frames only, "all" C frames too. At most `max_entries` events of a device are
 * shown, the latest (UINT64_MAX: as many as the option `events` keeps). `clear_history` drops
 * earlier events; otherwise they stay, even with `enabled` NULL.
 *
 * Returns 0; -EINVAL for an unknown word or no entries: nothing changes; -ENODEV if the library
 * does nothing in this process (mode:off) or there is no driver; -ENOSPC if there is no space for
 * events.
 */
CUDAMEM_API int cudamem_record_memory_history(const char *enabled, const char *context,
					      const char *stacks, uint64_t max_entries,
					      int clear_history);

/*
 * Writes the state of the process at this moment to a file, in place of an older one:
 * `cudamemstat report --region FILE` and the other commands for snapshots read it, here and
 * elsewhere. Only the owner may read the file. Requests of other threads wait for a copy in memory,
 * some milliseconds, and not for the file. Returns 0, or a negative errno: -ENODEV before the first
 * allocation; -EINVAL if `path` is no file; -EFBIG beyond the process's limit on files. After a
 * failure the file is useless.
 */
CUDAMEM_API int cudamem_dump_snapshot(const char *path);

/*
 * Names what the calling thread does until the matching pop. Its events carry the innermost name,
 * and the names of NVTX ranges if they are recorded (cudamemstat run --nvtx). The text is copied;
 * at most 32 names nest. A name that is pushed before the program's first allocation counts from
 * then on, in the thread that makes it, and in others from their next push or pop. A pop returns -1
 * if there is no name.
 */
CUDAMEM_API void cudamem_annotation_push(const char *name);
CUDAMEM_API int cudamem_annotation_pop(void);

#ifdef __cplusplus
}
#endif

#endif
