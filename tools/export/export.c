/* SPDX-License-Identifier: MIT */
#include "tools/export/export.h"

const struct cm_format cm_formats[] = {
	{"pickle", ".pickle", "PyTorch's memory snapshot, for pytorch.org/memory_viz and torch",
	 NULL, false, true, cm_export_pickle},
	{"json", ".json", "the same as JSON, which that viewer also opens", NULL, true, true,
	 cm_export_json},
	{"perfetto", ".pftrace", "counters and weighted call stacks over time, for ui.perfetto.dev",
	 NULL, false, false, cm_export_perfetto},
	{"speedscope", ".speedscope.json", "flame graphs for speedscope.app", NULL, true, false,
	 cm_export_speedscope},
	{"pprof", ".pb.gz", "a profile for go tool pprof, Pyroscope, Parca", "zlib", false, false,
	 cm_export_pprof},
	{"folded", ".folded", "one line per stack with its allocated bytes, for flamegraph.pl",
	 NULL, true, false, cm_export_folded},
	{"csv", ".csv", "the events, one per row", NULL, true, false, cm_export_csv},
	{"sqlite", ".db", "a database of segments, blocks, events and stacks, for queries",
	 "sqlite", false, false, cm_export_sqlite},
	{0},
};
