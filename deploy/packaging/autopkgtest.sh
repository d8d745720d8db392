#!/bin/sh
# SPDX-License-Identifier: MIT
# Debian's tests of the packages that deb.sh has built, in a root of their own: autopkgtest.sh ROOT_TAR
# Needs root, as it mounts and changes the root; the packages that a test asks for come from the
# archive.
set -eu
cd "$(dirname "$0")/../.."
tar=$1
work=$PWD/.cache/autopkgtest

rm -rf "$work"
mkdir -p "$work/root"
tar -xf "$tar" -C "$work/root" --exclude='./dev/*'
cp /etc/resolv.conf "$work/root/etc/resolv.conf"
mkdir -p "$work/root/etc/apt/apt.conf.d"
# shellcheck disable=SC2016 # expanded by the inner shell
exec unshare --mount sh -euc '
	mount --rbind /dev "$1/root/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$1/root/dev/shm"
	mount -t proc proc "$1/root/proc"
	work=$1
	shift
	autopkgtest --no-built-binaries --setup-commands "apt-get update" \
		--output-dir "$work/output" "$@" -- chroot "$work/root"
' sh "$work" .cache/deb/*.deb .cache/deb/cudamem-*/
