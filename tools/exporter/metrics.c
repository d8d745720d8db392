/* SPDX-License-Identifier: MIT */
#include "tools/exporter/metrics.h"

const struct cm_metric_info cm_metrics[CM_METRIC_COUNT] = {
#define CM_METRIC(ID, TYPE, SCOPE, JOIN, name, unit, label, word, expression, help) \
	[CM_METRIC_##ID] = {                                                        \
		name, unit, label, word, help, CM_TYPE_##TYPE, CM_SCOPE_##SCOPE, CM_JOIN_##JOIN},
#include "tools/exporter/metrics.def"
};
