/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <pthread.h>
#include <stdlib.h>

#include "checker.h"
#include "clock.h"
#include "device.h"
#include "faults.h"
#include "host_calls.h"
#include "plan.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

_Atomic enum sim_phase sim_phase_now;
__thread struct sim_thread *sim_self;

static struct sim_thread *_Atomic threads;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_thread;

void sim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void sim_wait(uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000u);
	until.tv_nsec = (long)(ns % 1000000000u);
	pthread_cond_timedwait(&change, &lock, &until);
}

void sim_wake(void)
{
	pthread_cond_broadcast(&change);
}

/* A forked child has the parent's memory but no device: the driver refuses to work in it. */
static void after_fork_in_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	change = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	threads_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (sim_phase_now == SIM_READY)
		sim_phase_now = SIM_FORKED;
}

static void release_thread(void *thread)
{
	struct sim_thread *dead = thread;

	pthread_mutex_lock(&threads_lock);
	dead->taken = false;
	pthread_mutex_unlock(&threads_lock);
}

static void start_once(void)
{
	sim_plan_read(secure_getenv("CUDASIM"));
	sim_faults_start();
	sim_checker_start();
	sim_clock_start();
	pthread_key_create(&key, release_thread);
	pthread_atfork(sim_lock, sim_unlock, after_fork_in_child);
}

void sim_start(void)
{
	pthread_once(&once, start_once);
}

static void tear_down(void)
{
	/* The thread of the host functions did not follow into a forked child. */
	if (!sim_plan.teardown || sim_phase_now == SIM_FORKED)
		return;
	sim_host_calls_stop();
	sim_phase_now = SIM_DEAD;
}

CUresult sim_initialise(void)
{
	CUresult result;

	if (sim_phase_now != SIM_FRESH)
		return CUDA_SUCCESS;
	if (sim_plan.devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	result = sim_devices_init();
	if (result != CUDA_SUCCESS)
		return result;
	sim_phase_now = SIM_READY;
	return atexit(tear_down) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static struct sim_thread *find_free_thread(void)
{
	struct sim_thread *thread;

	for (thread = threads; thread; thread = thread->next) {
		if (!thread->taken)
			return thread;
	}
	thread = calloc(1, sizeof(*thread));
	if (thread) {
		thread->next = threads;
		threads = thread;
	}
	return thread;
}

struct sim_thread *sim_thread_join(void)
{
	struct sim_thread *thread;

	sim_start();
	pthread_mutex_lock(&threads_lock);
	thread = find_free_thread();
	if (thread) {
		thread->taken = true;
		thread->id = ++last_thread;
		thread->depth = 0;
		thread->for_allocator = 0;
		thread->interrupt = 0;
		thread->capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	}
	pthread_mutex_unlock(&threads_lock);
	if (thread)
		pthread_setspecific(key, thread);
	sim_self = thread;
	return thread;
}

void sim_threads_visit(void (*see)(struct sim_thread *thread, void *data), void *data)
{
	pthread_mutex_lock(&threads_lock);
	for (struct sim_thread *thread = threads; thread; thread = thread->next)
		see(thread, data);
	pthread_mutex_unlock(&threads_lock);
}

uint64_t sim_calls_made(enum sim_call call)
{
	uint64_t sum = 0;

	for (struct sim_thread *thread = threads; thread; thread = thread->next)
		sum += atomic_load_explicit(&thread->calls[call], memory_order_relaxed);
	return sum;
}

uint64_t sim_calls_ns(enum sim_call call)
{
	uint64_t sum = 0;

	for (struct sim_thread *thread = threads; thread; thread = thread->next)
		sum += atomic_load_explicit(&thread->ns[call], memory_order_relaxed);
	return sum;
}

void sim_calls_reset(void)
{
	for (struct sim_thread *thread = threads; thread; thread = thread->next) {
		for (unsigned i = 0; i < SIM_CALL_COUNT; i++) {
			atomic_store_explicit(&thread->calls[i], 0, memory_order_relaxed);
			atomic_store_explicit(&thread->ns[i], 0, memory_order_relaxed);
		}
	}
}
