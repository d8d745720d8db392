#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Debian's packages of the tree's last commit: deb.sh CUDA_INCLUDE OUT
# The build's dependencies are ./dev's to install, so those of the control file are not asked for.
set -eu
cd "$(dirname "$0")/../.."
CUDA_INCLUDE=$(readlink -f "$1") out=$2
export CUDA_INCLUDE
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
work=$PWD/.cache/deb
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

rm -rf "$work"
mkdir -p "$work/cudamem-$version" "$out"
git archive HEAD | tar -x -C "$work/cudamem-$version"
cp -R "$work/cudamem-$version/deploy/packaging/debian" "$work/cudamem-$version/debian"
(cd "$work/cudamem-$version" && dpkg-buildpackage -b -d -us -uc)
# The host of the maintainer's address is none, and there is no bug of Debian's to close.
lintian --fail-on error,warning --suppress-tags bogus-mail-host,initial-upload-closes-no-bugs \
	"$work"/*.deb
cp "$work"/*.deb "$out"
