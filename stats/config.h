/* SPDX-License-Identifier: MIT */
/*
 * The configuration: CUDAMEM_CONF="key:value,key:value", in PyTorch's grammar, read into plain
 * values. Used by the library at its start and by `cudamemstat conf`. It reads no environment but
 * through the function it is given, prints nothing, allocates nothing and does not depend on the
 * locale. One thread per struct.
 *
 * A mistake never stops anything: it is told to the caller, counted, and the option keeps its
 * value.
 */
#ifndef CM_STATS_CONFIG_H
#define CM_STATS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/layout.h"

#define CM_CONF_VARIABLE "CUDAMEM_CONF"
#define CM_CONF_PREFIX   "CUDAMEM_" /* an unknown variable that begins so is a mistake */

#define CM_MIB_MAX         (1024.0 * 1024 * 1024 * 1024) /* 2^60 bytes: no request is larger */
#define CM_EVENTS_MAX      (16.0 * 1024 * 1024)
#define CM_DECAY_MAX       86400.0
#define CM_OOM_WAIT_MAX    60000.0
#define CM_STACK_DEPTH_MAX 256           /* frames of a stack, of each kind */
#define CM_STACK_MIB_MAX   (32.0 * 1024) /* an id is 32 bits wide, and counts words of 8 bytes */
#define CM_TEXT_MIB_MAX    4095
#define CM_UNLIMITED       UINT64_MAX
#define CM_DIVISION_SLOTS  16  /* slot i: sizes of [2^(20+i), 2^(21+i)); the ends are open */
#define CM_PATH_BYTES      192 /* with the zero byte */

enum cm_option {
#define CM_OPTION(name, TYPE, fallback, words, min, max, help) CM_OPTION_##name,
#include "stats/options.def"
	CM_OPTION_COUNT
};

/* The words of the CHOICE options, in the order of options.def. */
enum cm_mode {
	CM_MODE_CACHE, /* the caching allocator */
	CM_MODE_STATS, /* every request goes to the driver; the counters are kept */
	CM_MODE_OFF,   /* nothing is done at all */
};

enum cm_reuse {
	CM_REUSE_BARRIER, /* ordered barrier before new memory */
	CM_REUSE_GROW,    /* new memory first; no barrier */
	CM_REUSE_WAIT,    /* the host waits for the epoch before new memory */
};

enum cm_shards {
	CM_SHARDS_AUTO,   /* a thread that waits for the others gets a shard of its own */
	CM_SHARDS_OFF,    /* one shard a device */
	CM_SHARDS_ALWAYS, /* each thread chooses one at its first request */
};

enum cm_sync {
	CM_SYNC_AUTO,  /* the hooks wait for work that the host can see, free for nothing */
	CM_SYNC_NEVER, /* free never waits */
	CM_SYNC_FREE,  /* free waits for the device, as cudaFree does */
	CM_SYNC_EPOCH, /* the name of never before 0.2; the policy has never */
};

enum cm_placement {
	CM_PLACEMENT_AUTO,  /* exact where the process shows signs of sharing memory, else split */
	CM_PLACEMENT_EXACT, /* every block is a driver allocation of its own */
	CM_PLACEMENT_SPLIT, /* always split */
};

enum cm_oom_report {
	CM_OOM_REPORT_FULL, /* the first failure in full, one line for each later one */
	CM_OOM_REPORT_LINE, /* one line each */
	CM_OOM_REPORT_OFF,
};

/* Of messages; each level includes those before it. */
enum cm_log_level { CM_LOG_OFF, CM_LOG_WARNING, CM_LOG_INFO };

/* Those of `stacks` and `stack_frames` stand with the region: enum cm_context, enum cm_stacks. */

/* Where a value comes from. LIBRARY: it suits the kind of process; TOOL: set while it ran. */
enum cm_origin { CM_ORIGIN_DEFAULT, CM_ORIGIN_ENVIRONMENT, CM_ORIGIN_LIBRARY, CM_ORIGIN_TOOL };

#define CM_FIELD_BOOL(name)          bool name;
#define CM_FIELD_CHOICE(name)        uint32_t name;
#define CM_FIELD_NUMBER(name)        uint64_t name;
#define CM_FIELD_MIB(name)           uint64_t name; /* MiB; CM_UNLIMITED: no limit */
#define CM_FIELD_SEGMENT_MIB(name)   uint64_t name;
#define CM_FIELD_FRACTION(name)      double name;
#define CM_FIELD_OPEN_FRACTION(name) double name;
#define CM_FIELD_DIVISIONS(name)     uint32_t name[CM_DIVISION_SLOTS];
#define CM_FIELD_PATH(name)          char name[CM_PATH_BYTES];

/* The values in effect, one field an option. */
struct cm_config {
#define CM_OPTION(name, TYPE, fallback, words, min, max, help) CM_FIELD_##TYPE(name)
#include "stats/options.def"
	uint8_t origin[CM_OPTION_COUNT]; /* enum cm_origin */
	uint32_t errors;                 /* mistakes found, told or not */
};

/* secure_getenv, or a test's. */
typedef char *(*cm_getenv_fn)(const char *name);
/* One message, without a line end; the text is the callee's only during the call. */
typedef void (*cm_say_fn)(void *arg, const char *text);

/* All defaults. */
void cm_config_init(struct cm_config *config);

/*
 * Reads `text`, as typed in `variable`, on top of what `config` holds; of two settings of one
 * option the later wins. `say` is called once a mistake, unless warn is off; NULL is fine.
 */
void cm_config_parse(struct cm_config *config, const char *variable, const char *text,
		     cm_say_fn say, void *arg);

/*
 * Defaults, then CUDAMEM_CONF, then a look through `environment` (NULL-terminated, may be NULL) for
 * misspelt variables.
 */
void cm_config_read(struct cm_config *config, cm_getenv_fn get, char *const *environment,
		    cm_say_fn say, void *arg);

/* The option that a pair "key:value" names, by its old name too, or CM_OPTION_COUNT. */
enum cm_option cm_config_find(const char *pair);
/* Whether it can be changed while the program runs. */
bool cm_config_is_live(enum cm_option option);

/* The option as text, for the region and for people. */
void cm_config_row(const struct cm_config *config, enum cm_option option,
		   struct cm_option_row *ret_row);

#endif
