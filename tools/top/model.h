/* SPDX-License-Identifier: MIT */
/*
 * What `top` shows: processes and devices with their last samples, in order, and what the user has
 * chosen. Knows no terminal. Values are copied from the samples, so the source may go on.
 * Single-threaded.
 */
#ifndef CM_TOOLS_TOP_MODEL_H
#define CM_TOOLS_TOP_MODEL_H

#include <stdio.h>
#include <sys/types.h>

#include "tools/output/where.h"
#include "tools/top/columns.h"
#include "tools/top/history.h"
#include "tools/watch/source.h"

#define CM_TOP_GPUS_MAX   64
#define CM_TOP_TEXT_BYTES 256 /* of a line that is typed, or of a message */

/* As --group-by has it. */
enum cm_top_group {
	CM_TOP_GROUP_PID,
	CM_TOP_GROUP_CONTAINER,
	CM_TOP_GROUP_JOB,
	CM_TOP_GROUP_USER,
	CM_TOP_GROUP_COMM,
	CM_TOP_GROUP_COUNT
};

/* What identifies a row. */
struct cm_top_key {
	pid_t pid;
	uint64_t start_time;
	uint32_t device;
};

/* Counters of which rates are shown. */
struct cm_top_counters {
	uint64_t taken_ns; /* CLOCK_MONOTONIC; 0: none yet */
	int64_t allocated;
	int64_t allocs;
	int64_t driver_calls;
	int64_t ooms;
};

/* One device of one process, or the sum of a group. Its values point into it. */
struct cm_top_row {
	pid_t pid;
	uint64_t start_time;
	uint32_t device; /* row of the region's table; CM_DEVICE_NONE: a process without figures */
	uid_t uid;
	enum cm_life life;
	int error;      /* the region cannot be read */
	bool recording; /* its events are */
	bool seen;      /* in the sample at hand */
	bool is_group;
	size_t members; /* of a group */
	size_t place;   /* in the last order */
	int gpu;        /* in cm_top.gpu; -1: none */
	uint64_t up_ns;
	char user[64];
	char comm[64];
	char command[512];
	char path[sizeof(((struct cm_process *)0)->path)];
	char version[32];
	char container[13];
	char pod[37];
	char job[21];
	char group[96]; /* of a group: its name and members */
	struct cm_watch_texts texts;
	struct cm_summary sum;
	int64_t uncached;
	struct cm_top_counters last;
	uint64_t oom_ns; /* CLOCK_REALTIME of the sample that first showed the last one; 0: none */
	struct cm_value value[CM_TOP_COLUMN_COUNT];
	struct cm_top_history history;
};

/* One card, by its UUID, over all processes. In bytes; the parts add up to the total. */
struct cm_top_gpu {
	uint8_t uuid[16];
	char model[64];
	int ordinal; /* as the first process counts it */
	char pci[CM_PCI_BYTES];
	bool simulated;
	bool hidden; /* its processes are not listed */
	uint64_t free_seen_ns;
	int64_t total;
	int64_t allocated, pending, fragmented, releasable;
	int64_t others; /* contexts, libraries, other processes, uncached memory */
	int64_t free;
	bool free_known; /* else `others` has no more than uncached memory */
	int64_t reserved;
	int64_t ooms, ooms_before;
	size_t processes;
	struct cm_top_history history;
};

/* What the keys go to. */
enum cm_top_mode {
	CM_TOP_TABLE,
	CM_TOP_DETAIL,
	CM_TOP_HELP,
	CM_TOP_MENU_SORT,
	CM_TOP_MENU_COLUMNS,
	CM_TOP_TYPE_FILTER,
	CM_TOP_TYPE_SEARCH,
	CM_TOP_TYPE_FILE,
	CM_TOP_CONFIRM,
};

enum cm_top_action {
	CM_TOP_ACTION_NONE,
	CM_TOP_ACTION_TRIM,
	CM_TOP_ACTION_RESET,
	CM_TOP_ACTION_HISTORY,
	CM_TOP_ACTION_SNAPSHOT,
	CM_TOP_ACTION_TERM,
};

/* The action that the user is asked to confirm. */
struct cm_top_request {
	enum cm_top_action action;
	pid_t pid;
	uint64_t start_time;
	bool recording; /* history: stop it */
	int asked;      /* how many times it was confirmed */
	char file[CM_TOP_TEXT_BYTES];
};

/* The state of a recording that is played; all zero: the view is live. */
struct cm_top_replay {
	bool on;
	bool ended;
	double speed; /* 1: as it was */
	uint64_t first_ns, last_ns;
	int64_t seek_ns; /* CM_TOP_NEXT_SEEK: by how much */
};

enum cm_top_graph { CM_TOP_GRAPH_BRAILLE, CM_TOP_GRAPH_BLOCK, CM_TOP_GRAPH_ASCII };

struct cm_top {
	/* What is there. */
	struct cm_top_row **row;
	size_t rows, rows_room;
	struct cm_top_row **group;
	size_t groups, groups_room;
	struct cm_top_row **shown; /* filtered and in order, with lines for groups */
	size_t shown_count, shown_room;
	struct cm_top_gpu gpu[CM_TOP_GPUS_MAX];
	size_t gpus;
	size_t running, stopped, crashed, unreadable;
	uint64_t time_ns; /* of the sample that is shown */
	uint64_t torn;    /* samples of devices that were left out */
	uint64_t held;    /* samples since the display was paused */
	char host[64];

	/* What the user chose. */
	uint8_t column[CM_COLUMNS_MAX]; /* on the screen */
	size_t columns;
	uint8_t added[CM_COLUMNS_MAX];
	size_t added_count;
	size_t first_column; /* behind the first one, which stays */
	size_t sort;
	struct cm_where *where;
	char filter[CM_TOP_TEXT_BYTES];
	bool columns_chosen; /* else those that fit the screen */
	bool reverse;        /* smallest numbers first, or texts from Z on */
	bool follow, paused, readonly, exact, no_crashed, no_gpus;
	bool batch; /* nobody can type, so there is no line of keys */
	uint64_t interval_ns;

	enum cm_top_group group_by;
	enum cm_top_graph graph;
	struct cm_top_replay replay;

	/* Where the user is. */
	enum cm_top_mode mode;
	bool alarming;               /* the message is a complaint */
	bool wants_detail;           /* a text about `selected` is to be fetched */
	struct cm_top_row *selected; /* one of `shown`, or NULL */
	struct cm_top_key wanted;    /* is selected when it comes back; pid 0: nothing */
	size_t line;                 /* of it in `shown` */
	size_t first;                /* line of `shown` at the top of the table */
	size_t page;                 /* lines of the table, as last drawn */
	size_t menu;                 /* line of a menu, or first line of the help or the details */
	char typed[CM_TOP_TEXT_BYTES];
	char message[CM_TOP_TEXT_BYTES]; /* the last line; "": the keys */
	struct cm_top_request request;
	char *detail; /* the text about `selected`, or NULL */
};

void cm_top_init(struct cm_top *top);
void cm_top_fini(struct cm_top *top);

/* Adds a sample. While the display is paused, only the histories grow. 0 or -ENOMEM. */
int cm_top_update(struct cm_top *top, const struct cm_watch_sample *sample);

/* Forgets all processes and cards before samples of another time come, but remembers the
 * selection. */
void cm_top_forget(struct cm_top *top);

/* Filters, groups and sorts again, and keeps the selection. 0 or -ENOMEM. */
int cm_top_arrange(struct cm_top *top);

/* Selects a line of `shown`; a number beyond the end selects the last one. */
void cm_top_select(struct cm_top *top, size_t line);

/* Sets a condition as of --where; "" removes it. False: it is wrong, and `message` says why. */
bool cm_top_set_filter(struct cm_top *top, const char *text);

__attribute__((format(printf, 3, 4))) void cm_top_say(struct cm_top *top, bool alarming,
						      const char *format, ...);

/* Sets the text about the selected process. It is from malloc, and the model frees it. NULL:
 * none. */
void cm_top_set_detail(struct cm_top *top, char *text);

/* Whether block tables are to be read: a column on the screen or the filter needs them. */
bool cm_top_wants_survey(const struct cm_top *top);

#endif
