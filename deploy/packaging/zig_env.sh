# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: MIT
# Sourced: sets CC to zigcc, for this machine's architecture and GLIBC 2.28. Expects `python`, which
# has the package ziglang, and `work`, a folder that gets links to the headers of libraries: one by
# one, as /usr/include has the machine's newer C library too.
machine=$(uname -m)
glibc=2.28
ZIG_PYTHON=$(readlink -f "$(dirname "$python")")/$(basename "$python")
ZIG_TARGET=$machine-linux-gnu.$glibc
ZIG_INCLUDE=$work/include
ZIG_GLOBAL_CACHE_DIR=$PWD/.cache/zig
ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR
CC=$PWD/deploy/packaging/zigcc
export ZIG_PYTHON ZIG_TARGET ZIG_INCLUDE ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR CC

# link_headers NAME...: files or folders of /usr/include.
link_headers()
{
	mkdir -p "$ZIG_INCLUDE"
	for header; do
		for folder in /usr/include "/usr/include/$machine-linux-gnu"; do
			[ ! -e "$folder/$header" ] || ln -sfn "$folder/$header" "$ZIG_INCLUDE/$header"
		done
	done
}
