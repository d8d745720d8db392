/* SPDX-License-Identifier: MIT */
#include "tools/export/export.h"

const struct cm_format cm_formats[] = {
	{"pickle", ".pickle", "PyTorch's memory snapshot, for pytorch.org/memory_viz and torch",
	 false, cm_export_pickle},
	{"json", ".json", "the same as JSON, which that viewer also opens", true, cm_export_json},
	{"perfetto", ".pftrace", "counters and weighted call stacks over time, for ui.perfetto.dev",
	 false, cm_export_perfetto},
	{"speedscope", ".speedscope.json", "flame graphs for speedscope.app", true,
	 cm_export_speedscope},
	{"pprof", ".pb.gz", "a profile for go tool pprof, Pyroscope, Parca", false,
	 cm_export_pprof},
	{"folded", ".folded", "one line per stack with its allocated bytes, for flamegraph.pl",
	 true, cm_export_folded},
	{"csv", ".csv", "the events, one per row", true, cm_export_csv},
	{0},
};
