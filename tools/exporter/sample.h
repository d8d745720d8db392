/* SPDX-License-Identifier: MIT */
/*
 * One sample of all regions of the node: their figures as rows, and who the processes are. Regions
 * are foreign data: a region that cannot be read is counted, and a value that makes no sense is
 * left out.
 */
#ifndef CM_TOOLS_EXPORTER_SAMPLE_H
#define CM_TOOLS_EXPORTER_SAMPLE_H

#include "tools/cli/options.h"
#include "tools/exporter/ledger.h"
#include "tools/processes/identity.h"

enum cm_group_by {
	CM_GROUP_PID,
	CM_GROUP_CONTAINER,
	CM_GROUP_JOB,
	CM_GROUP_USER,
	CM_GROUP_COMM,
	CM_GROUP_BY_COUNT
};

/* The label that tells the groups apart. */
extern const char *const cm_group_labels[CM_GROUP_BY_COUNT];

/* Who a process is; all text is clean (stats/text.h). */
struct cm_who {
	char group[CM_GROUP_TEXT];
	pid_t pid, ns_pid;
	uid_t uid;
	double weight; /* reserved bytes */
	char user[64];
	char comm[64];
	char version[32];
	char mode[64];
	struct cm_identity identity;
};

struct cm_gpu {
	char uuid[CM_UUID_TEXT];
	char model[64];
	char pci[CM_PCI_BYTES];
	bool simulated;
	uint64_t free_seen_ns;
	double value[CM_METRIC_COUNT];
};

struct cm_sample {
	struct cm_rows devices;   /* by group and GPU */
	struct cm_rows processes; /* by group */
	struct cm_who *who;       /* one a process, or a container; those with most memory first */
	size_t who_count;
	struct cm_gpu gpu[CM_DEVICES_MAX];
	size_t gpus;
	const char *dir;
	double value[CM_METRIC_COUNT]; /* of the node */
	double started;                /* of the sampler, seconds since 1970 */
	enum cm_group_by group_by;
};

struct cm_sampler {
	const struct cm_options *options; /* --dir */
	enum cm_group_by group_by;
	size_t max_series;
	struct cm_ledger ledger;
	double started;      /* seconds since 1970 */
	uint64_t torn_reads; /* since then */
};

/* 0, or an exit code after a complaint. Blocks for as long as reading all regions takes. */
int cm_sample_take(struct cm_sampler *sampler, struct cm_sample *ret_sample);
void cm_sample_fini(struct cm_sample *sample);

#endif
