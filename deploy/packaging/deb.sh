#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Debian's packages of the tree's last commit: deb.sh PYTHON CUDA_INCLUDE OUT
# PYTHON has the package ziglang, so that the packages need no more than GLIBC 2.28. The build's
# dependencies are ./dev's to install, so those of the control file are not asked for.
set -eu
cd "$(dirname "$0")/../.."
python=$1 CUDA_INCLUDE=$(readlink -f "$2") out=$3
export CUDA_INCLUDE
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
work=$PWD/.cache/deb
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

rm -rf "$work"
mkdir -p "$work/cudamem-$version" "$out"
. deploy/packaging/zig_env.sh
link_headers zstd.h zstd_errors.h zlib.h zconf.h sqlite3.h elfutils dwarf.h libelf.h gelf.h \
	libiberty libsmartcols curses.h ncurses.h ncurses_dll.h unctrl.h term.h
# Debian's libraries are linked as they are; what they need of the newer C library is theirs.
DEB_LDFLAGS_APPEND="-L/usr/lib/$machine-linux-gnu -Wl,--allow-shlib-undefined -Wl,--build-id=sha1"
export DEB_LDFLAGS_APPEND
git archive HEAD | tar -x -C "$work/cudamem-$version"
cp -R "$work/cudamem-$version/deploy/packaging/debian" "$work/cudamem-$version/debian"
(cd "$work/cudamem-$version" && dpkg-buildpackage -b -d -us -uc)
for package in libcudamem cudamemstat; do
	dpkg-deb -x "$work/${package}_$version"-*.deb "$work/unpacked"
done
python3 deploy/packaging/glibc.py "$glibc" "$work/unpacked/usr/bin/cudamemstat" \
	"$work"/unpacked/usr/lib/*/cudamem/libcudamem.so
# The host of the maintainer's address is none, and there is no bug of Debian's to close.
lintian --fail-on error,warning --suppress-tags bogus-mail-host,initial-upload-closes-no-bugs \
	"$work"/*.changes
cp "$work"/*.deb "$out"
