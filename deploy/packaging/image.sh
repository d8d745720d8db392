#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the image of deploy/kubernetes/Containerfile from a wheel: image.sh WHEEL ROOT_TAR OUT
# ROOT_TAR, a Debian's files, stands for the base image, so that no registry is asked. OUT is an
# archive in the format of OCI. Needs no root: buildah stores in a folder of the tree, mounts
# nothing, and runs nothing in the image.
set -eu
cd "$(dirname "$0")/../.."
wheel=$1 tar=$2 out=$3
work=$PWD/.cache/image
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)

# In the user namespace that buildah works in: what it stores may belong to other users of it.
remove()
{
	[ ! -e "$work" ] || rm -rf "$work" 2>/dev/null || buildah unshare rm -rf "$work"
}

store()
{
	verb=$1
	shift
	buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$verb" "$@"
}

remove
mkdir -p "$work/context"
python3 -m zipfile -e "$wheel" "$work/context"
export BUILDAH_ISOLATION=chroot
base=$(store from scratch)
store add "$base" "$tar" / >/dev/null
store commit --timestamp "$SOURCE_DATE_EPOCH" "$base" localhost/cudamem-base >/dev/null
store bud --pull-never --timestamp "$SOURCE_DATE_EPOCH" --build-arg BASE=localhost/cudamem-base \
	-f deploy/kubernetes/Containerfile -t localhost/cudamem "$work/context"
store push localhost/cudamem "oci-archive:$out:localhost/cudamem:$version"
remove
