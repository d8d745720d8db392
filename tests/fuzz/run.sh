#!/bin/sh
# SPDX-License-Identifier: MIT
# Lets libFuzzer loose on the targets: run.sh BUILD SECONDS [TARGET...]
# New inputs go to BUILD/corpus; an input that fails is kept in BUILD/crashes and ends the run.
set -eu

build=$1 seconds=$2
shift 2
here=$(dirname "$0")
if [ $# -eq 0 ]; then
	for source in "$here"/fuzz_*.c; do
		target=$(basename "$source" .c)
		set -- "$@" "${target#fuzz_}"
	done
fi

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
