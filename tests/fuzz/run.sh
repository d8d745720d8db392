#!/bin/sh
# SPDX-License-Identifier: MIT
# Lets libFuzzer loose on the targets: run.sh BUILD SECONDS [TARGET...]
# New inputs go to BUILD/corpus; an input that fails is kept in BUILD/crashes and ends the run.
set -eu

build=$1 seconds=$2
shift 2
here=$(dirname "$0")
[ $# -gt 0 ] || set -- $(cd "$here" && ls fuzz_*.c | sed 's/^fuzz_\(.*\)\.c$/\1/')

for target; do
	found=$build/corpus/$target crashes=$build/crashes/$target
	mkdir -p "$found" "$crashes"
	echo "fuzz_$target: $seconds s"
	"$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -print_final_stats=1 \
		-max_len=4096 -artifact_prefix="$crashes/" "$found" "$here/corpus/$target" \
		2>&1 | grep -E '^(stat::|==|SUMMARY|artifact|.*ERROR)' || true
	if [ -n "$(ls "$crashes")" ]; then
		echo "fuzz_$target: failed; see $crashes" >&2
		exit 1
	fi
done
