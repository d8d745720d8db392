/* SPDX-License-Identifier: MIT */
/* The metrics of metrics.def as a table. Pure. */
#ifndef CM_TOOLS_EXPORTER_METRICS_H
#define CM_TOOLS_EXPORTER_METRICS_H

enum cm_metric {
#define CM_METRIC(ID, TYPE, SCOPE, JOIN, name, unit, label, word, expression, help) CM_METRIC_##ID,
#include "tools/exporter/metrics.def"
	CM_METRIC_COUNT
};

enum cm_metric_type { CM_TYPE_INFO, CM_TYPE_GAUGE, CM_TYPE_COUNTER };
enum cm_metric_scope { CM_SCOPE_DEVICE, CM_SCOPE_PROCESS, CM_SCOPE_GPU, CM_SCOPE_NODE };
enum cm_metric_join { CM_JOIN_SUM, CM_JOIN_MAX };

struct cm_metric_info {
	const char *name;
	const char *unit;
	const char *label; /* "": none */
	const char *word;
	const char *help;
	enum cm_metric_type type;
	enum cm_metric_scope scope;
	enum cm_metric_join join;
};

extern const struct cm_metric_info cm_metrics[CM_METRIC_COUNT];

#endif
