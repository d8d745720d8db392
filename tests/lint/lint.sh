#!/bin/sh
# SPDX-License-Identifier: MIT
# Every lint, one after the other: lint.sh BUILD CLANG_BUILD. A failed one does not stop the rest.
set -u
cd "$(dirname "$0")/../.." || exit
build=$1
clang_build=$2
passed=0
failed=0

# lint NAME COMMAND...
lint()
{
	name=$1
	shift
	if output=$("$@" 2>&1); then
		passed=$((passed + 1))
		printf 'ok      %s\n' "$name"
	else
		failed=$((failed + 1))
		printf '%s\nFAILED  %s\n' "$output" "$name"
	fi
}

formatted()
{
	python3 tests/lint/tree.py .c .h | xargs -0 clang-format-14 --dry-run -Werror
}

spelled()
{
	python3 tests/lint/tree.py .c .h .def .S .cu .py .sh .md .scd .build |
		xargs -0 codespell --ignore-words tests/lint/words
}

tidy()
{
	python3 tests/lint/tidy.py "$build" "$clang_build"
}

shell()
{
	python3 tests/lint/tree.py .sh | xargs -0 shellcheck dev .ci/run
}

check_c()
{
	mkdir -p .cache/cppcheck
	cppcheck --cppcheck-build-dir=.cache/cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
		--error-exitcode=1 -j "$(nproc)" -I. \
		-D_GNU_SOURCE -DCUDA_VERSION=13000 '-DElfW(type)=Elf64_##type' \
		stats allocator interpose tools tests/sim tests/model tests/proof
}

# What is installed. clang-tidy has clang's warnings, and looks at all the rest as well.
clang_builds()
{
	ninja -k 0 -C "$clang_build" interpose/libcudamem.so tools/cudamemstat
}

# The suite holds the house's own rules: text, layers, headers, exports, documentation.
lint 'suite lint' meson test -C "$build" --no-rebuild --print-errorlogs --suite lint
lint clang-format formatted
lint codespell spelled
lint shellcheck shell
lint cppcheck check_c
# Before clang-tidy, which needs the headers that it generates.
lint 'build with clang' clang_builds
lint clang-tidy tidy
printf '%s lints passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
