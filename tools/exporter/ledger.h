/* SPDX-License-Identifier: MIT */
/*
 * Why the counters of a group never fall: what its processes had counted when they ended stays in
 * the sum for as long as the group has any process. A sum that fell would be taken for a counter
 * that began anew, and its rest for an increase: an alarm that nothing happened for.
 */
#ifndef CM_TOOLS_EXPORTER_LEDGER_H
#define CM_TOOLS_EXPORTER_LEDGER_H

#include "tools/exporter/rows.h"

/* Starts as zeros. */
struct cm_ledger {
	struct cm_rows last; /* each process's own, of the page before */
	struct cm_rows base; /* by group and GPU: what has ended, or was set back */
};

/*
 * Takes in `rows`, one a process and GPU, and joins them by group, with what the ledger has of
 * their groups. -ENOMEM: joined without it.
 */
int cm_ledger_join(struct cm_ledger *ledger, struct cm_rows *rows);
void cm_ledger_fini(struct cm_ledger *ledger);

#endif
