/* SPDX-License-Identifier: MIT */
/*
 * Keeps the counters of a group from falling: what its processes had counted when they ended stays
 * in the sum, as long as the group has any process. Prometheus would take a sum that fell for a
 * counter that was reset, and what is left of it for an increase: a false alarm.
 */
#ifndef CM_TOOLS_EXPORTER_LEDGER_H
#define CM_TOOLS_EXPORTER_LEDGER_H

#include "tools/exporter/rows.h"

/* Starts as zeros. */
struct cm_ledger {
	struct cm_rows last; /* of each process, of the page before */
	struct cm_rows base; /* by group and GPU: what has ended, or was set back */
};

/*
 * Takes `rows`, one for each process and GPU, and joins them by group, with what the ledger has of
 * each group. -ENOMEM: they are joined without that.
 */
int cm_ledger_join(struct cm_ledger *ledger, struct cm_rows *rows);
void cm_ledger_fini(struct cm_ledger *ledger);

#endif
