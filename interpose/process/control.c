/* SPDX-License-Identifier: MIT */
#include "interpose/process/control.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "allocator/base/lock.h"
#include "interpose/core/state.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/process/settings.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"
#include "stats/command_channel.h"
#include "stats/start_time.h"

#define STACK_BYTES    262144ul /* driver calls run on it; unused pages cost nothing */
#define STOP_NS        200000000L
#define POLL_MS        1000 /* longest pause, see next_poll */
#define CHECK_MS       60000
#define RELEASE_NS_MAX UINT64_C(100000000)
#define NS_PER_MS      1000000
#define WAKE_TRIES     100
#define WAKE_PAUSE_NS  1000000L
#define ALL_DEVICES    UINT64_MAX

static struct {
	struct cm_region *region;
	struct cm_cache *cache;
	pthread_key_t key;
	uint64_t decay_due_ns; /* used by the helper only */
	atomic_bool stopped;
	atomic_bool starter_gone;
	atomic_bool polling;
} control;

/* Held while a command runs, so that exit can wait for it. */
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;

/* Rows of the device table. Tools can overwrite the count in the region, so it is bounded. */
static uint32_t count_devices(void)
{
	uint32_t rows = __atomic_load_n(&control.region->header->table[CM_TABLE_DEVICE].rows,
					__ATOMIC_ACQUIRE);

	return rows < CM_DEVICES_MAX ? rows : CM_DEVICES_MAX;
}

/* Resets the device row that `arg` names, or all rows and pinned host memory. */
static int reset_stats(uint64_t arg, void (*reset)(struct cm_cache *cache, uint32_t device),
		       void (*reset_host)(struct cm_cache *cache))
{
	uint32_t device, rows = count_devices();

	if (arg != ALL_DEVICES && arg >= rows)
		return -ENODEV;
	for (device = 0; device < rows; device++)
		if (arg == ALL_DEVICES || arg == device)
			reset(control.cache, device);
	if (arg == ALL_DEVICES)
		reset_host(control.cache);
	return 0;
}

static int empty_cache(uint64_t arg, uint64_t *ret_bytes)
{
	if (arg != ALL_DEVICES && arg >= count_devices())
		return -ENODEV;
	return cm_cache_trim(control.cache, (uint32_t)arg, ret_bytes);
}

/* Holds the allocator's locks until the tool has copied the region, or for too long (-ETIME), and
 * records a successful snapshot. */
static int hold_for_snapshot(uint64_t most_ns, uint64_t *ret_ns)
{
	bool copied;

	*ret_ns = 0;

	cm_process_stamp();
	cm_cache_hold(control.cache);
	copied = !most_ns ||
		 cm_channel_hold(&control.region->header->channel,
				 most_ns < CM_HOLD_NS_MAX ? most_ns : CM_HOLD_NS_MAX, ret_ns);
	if (copied)
		cm_cache_note_snapshot(control.cache);
	cm_cache_resume(control.cache);
	return copied ? 0 : -ETIME;
}

/* The arguments may be anything: a request with an invalid value is refused as a whole. */
static int change_record(struct cm_command *command)
{
	const struct cm_record *record = &control.region->header->record;
	const struct cm_record_request request = {
		.set = (uint32_t)command->arg[0],
		.events = cm_record_packed_events(command->arg[1]),
		.context = cm_record_packed_context(command->arg[1]),
		.stacks = cm_record_packed_stacks(command->arg[1]),
		.max_entries = command->arg[2],
		.devices = command->arg[3] ? command->arg[3] : CM_ALL_DEVICES,
	};
	int err = command->arg[0] > CM_RECORD_ALL ? -EINVAL : cm_record_change(&request);

	command->result[0] = cm_record_pack(record->events, record->context, record->stacks);
	command->result[1] = record->max_entries;
	return err;
}

/* Releases memory for another process, which waits 0.1 s at most. */
static int release_for_peer(const uint64_t arg[4], uint64_t *ret_bytes)
{
	if (!cm_process_policy()->peer_processes)
		return -EOPNOTSUPP;
	return arg[0] < count_devices()
		       ? cm_cache_give_back(control.cache, (uint32_t)arg[0], arg[1],
					    arg[2] < RELEASE_NS_MAX ? arg[2] : RELEASE_NS_MAX,
					    ret_bytes)
		       : -ENODEV;
}

/* What exceeds a lower limit is given back at once. */
static int change_option(const uint64_t arg[4])
{
	char value[3 * sizeof(*arg) + 1];
	int err;

	memcpy(value, &arg[1], sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	err = cm_settings_change(control.cache, control.region, arg[0], value);
	if (!err)
		control.decay_due_ns = 0;
	return err;
}

static int run_command(struct cm_command *command)
{
	switch (command->code) {
	case CM_COMMAND_EMPTY_CACHE:
		return empty_cache(command->arg[0], &command->result[0]);
	case CM_COMMAND_RESET_PEAK:
		return reset_stats(command->arg[0], cm_cache_reset_peak, cm_cache_host_reset_peak);
	case CM_COMMAND_RESET_ACCUMULATED:
		return reset_stats(command->arg[0], cm_cache_reset_accumulated,
				   cm_cache_host_reset_accumulated);
	case CM_COMMAND_RECORD:
		return change_record(command);
	case CM_COMMAND_GIVE_BACK:
		return release_for_peer(command->arg, &command->result[0]);
	case CM_COMMAND_SNAPSHOT:
		return hold_for_snapshot(command->arg[0], &command->result[0]);
	case CM_COMMAND_CONFIGURE:
		return change_option(command->arg);
	case CM_COMMAND_CHECKPOINT:
		cm_cache_poll(control.cache);
		cm_process_stamp();
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* Runs the posted command. False if there is none. */
static bool serve_one(struct cm_channel *channel)
{
	struct cm_command command;

	if (!cm_channel_take(channel, &command))
		return false;
	(void)pthread_mutex_lock(&running);
	if (atomic_load(&control.stopped)) {
		command.status = -ESHUTDOWN;
	} else {
		command.status = run_command(&command);
		/* The status is an errno; a code of the driver goes into a result. */
		if (command.status > 0) {
			command.result[1] = (uint64_t)command.status;
			command.status = -EIO;
		}
	}
	(void)pthread_mutex_unlock(&running);
	(void)cm_channel_answer(channel, &command);
	return true;
}

/* Whether the only other thread is a main thread that ended by pthread_exit. It stays in the list
 * as a zombie until all threads are gone. */
static bool is_last_thread(void)
{
	struct cm_process_stat stat = {0};

	return !cm_process_read_own_stat(&stat) && stat.state == 'Z' && stat.threads <= 2;
}

/* Releases idle memory that is due. Returns the ms until the next time, or CM_CHANNEL_FOREVER. */
static int decay(void)
{
	const uint64_t now = cm_driver_ops()->now_ns();
	uint64_t wait_ns = 0;

	if (control.decay_due_ns == UINT64_MAX)
		return CM_CHANNEL_FOREVER;
	if (now >= control.decay_due_ns) {
		(void)pthread_mutex_lock(&running);
		if (!atomic_load(&control.stopped))
			wait_ns = cm_cache_decay(control.cache);
		(void)pthread_mutex_unlock(&running);
		control.decay_due_ns = wait_ns == UINT64_MAX ? UINT64_MAX : now + wait_ns;
	}
	return wait_ns == UINT64_MAX ? CM_CHANNEL_FOREVER
				     : (int)((control.decay_due_ns - now) / NS_PER_MS) + 1;
}

static int sooner(int a_ms, int b_ms)
{
	if (a_ms == CM_CHANNEL_FOREVER || b_ms == CM_CHANNEL_FOREVER)
		return a_ms == CM_CHANNEL_FOREVER ? b_ms : a_ms;
	return a_ms < b_ms ? a_ms : b_ms;
}

/* Polls ever less often: the end is noticed late by an eighth of the time waited. */
static int next_poll(int poll_ms)
{
	return poll_ms < POLL_MS ? poll_ms + poll_ms / 8 + 1 : POLL_MS;
}

static void *serve_commands(void *arg)
{
	struct cm_channel *channel = arg;
	int poll_ms = 0;
	bool starter_gone;

	/* Never left: whatever the driver calls on this thread is on our behalf. */
	(void)cm_hook_enter();
	cm_lock_agree();
	for (;;) {
		if (serve_one(channel))
			continue;
		starter_gone = atomic_load(&control.starter_gone);
		if (starter_gone) {
			atomic_store(&control.polling, true);
			/* The last thread to return ends the process, as without us. */
			if (is_last_thread())
				return NULL;
			poll_ms = next_poll(poll_ms);
		}
		cm_channel_wait(channel, sooner(decay(), starter_gone ? poll_ms : CHECK_MS));
	}
}

/*
 * Destructor of the starting thread, perhaps the main one in pthread_exit: from now on the helper
 * has to check whether it is the last thread. A wake-up can be lost if the helper is about to
 * sleep, so it is repeated; a helper that misses all of them checks within CHECK_MS.
 */
static void on_starter_end(void *arg)
{
	const struct timespec pause = {0, WAKE_PAUSE_NS};
	int i;

	atomic_store(&control.starter_gone, true);
	for (i = 0; i < WAKE_TRIES && !atomic_load(&control.polling); i++)
		if (!cm_channel_wake(arg))
			(void)nanosleep(&pause, NULL);
}

static int create_thread(struct cm_channel *channel)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return err;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&thread, &attr, serve_commands, channel);
	if (err == EINVAL) {
		/* The program's thread-local data may need more stack: use the default size. */
		(void)pthread_attr_destroy(&attr);
		(void)pthread_attr_init(&attr);
		(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		err = pthread_create(&thread, &attr, serve_commands, channel);
	}
	if (!err)
		(void)pthread_setname_np(thread, "cudamem");
	(void)pthread_attr_destroy(&attr);
	return err;
}

int cm_control_start(struct cm_region *region, struct cm_cache *cache)
{
	struct cm_channel *channel = &region->header->channel;
	sigset_t all, old;
	int err;

	control.region = region;
	control.cache = cache;
	err = pthread_key_create(&control.key, on_starter_end);
	if (err)
		return -err;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	err = create_thread(channel);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		(void)pthread_key_delete(control.key);
	else
		(void)pthread_setspecific(control.key, channel);
	return -err;
}

void cm_control_stop(void)
{
	struct timespec until;

	atomic_store(&control.stopped, true);
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += STOP_NS;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	if (!pthread_mutex_timedlock(&running, &until))
		(void)pthread_mutex_unlock(&running);
}

void cm_control_forget(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	if (control.region)
		(void)pthread_key_delete(control.key);
	memset(&control, 0, sizeof(control));
	running = unlocked;
}
