#!/bin/sh
# SPDX-License-Identifier: MIT
# Which lines and branches of the library the tests reach: coverage.sh BUILD [TEST...]
set -eu

build=$1
shift
cd "$(dirname "$0")/.."
find "$build" -name '*.gcda' -delete
# Processes that die, or see no files, write no counters, and must not complain of it where a test
# listens.
export GCOV_ERROR_FILE=/dev/null
# A test that fails is none of coverage's business, but what it does not reach is.
meson test -C "$build" --setup all --no-rebuild --timeout-multiplier 10 \
	--suite unit --suite preload --suite proof --suite fuzz --suite stress --suite snapshot \
	--suite clients "$@" | tail -n 12 || true
# Asserts have a branch that is never taken.
gcovr --gcov-ignore-parse-errors --root . --object-directory "$build" --filter allocator/ --filter interpose/ \
	--exclude-unreachable-branches --exclude-branches-by-pattern '.*assert\(.*' \
	--json "$build/coverage.json" --txt "$build/coverage.txt" >/dev/null
cat "$build/coverage.txt"
python3 tests/coverage.py "$build/coverage.json"
