#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds a wheel for every system with GLIBC 2.28 (manylinux_2_28): wheel.sh PYTHON CUDA_INCLUDE OUT
# PYTHON has the package ziglang. The tool's libraries are linked in; libsmartcols, of which Debian
# has no static one, is built from Debian's source. Works in .cache/wheel and build-wheel.
set -eu
cd "$(dirname "$0")/../.."
python=$1 cuda_include=$2 out=$3
work=$PWD/.cache/wheel root=$PWD/.cache/wheel
. deploy/packaging/zig_env.sh
export PKG_CONFIG_PATH="$root/lib/pkgconfig"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

# Debian's source of util-linux, checked by apt against Debian's key; lists of our own, since a
# machine's have no sources as a rule.
fetch_source()
{
	mkdir -p "$work/lists/partial" "$work/source"
	key=/usr/share/keyrings/debian-archive-keyring.gpg
	mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[.*\] \)\{0,1\}\(http[^ ]*\) .*/\2/p' \
		/etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
	printf 'deb-src [signed-by=%s] %s bookworm main\n' "$key" "$mirror" >"$work/sources.list"
	set -- -q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- \
		-o "Dir::State::lists=$work/lists" -o "APT::Sandbox::User=$(id -un)"
	apt-get "$@" update
	(cd "$work/source" && apt-get "$@" source --download-only util-linux)
}

build_smartcols()
{
	[ ! -f "$root/lib/libsmartcols.a" ] || return 0
	fetch_source
	rm -rf "$work/util-linux"
	mkdir -p "$work/util-linux" "$root/lib/pkgconfig" "$root/include/libsmartcols"
	tar -xf "$work"/source/util-linux_*.orig.tar.* -C "$work/util-linux" --strip-components=1
	(
		cd "$work/util-linux"
		./configure --disable-all-programs --enable-libsmartcols --disable-shared \
			--enable-static --disable-nls
		make -j2 libsmartcols.la
	)
	cp "$work/util-linux/libsmartcols/src/libsmartcols.h" "$root/include/libsmartcols/"
	printf 'Name: smartcols\nDescription: tables\nVersion: 2.38.1\nLibs: -L%s -lsmartcols\n' \
		"$root/lib" >"$root/lib/pkgconfig/smartcols.pc"
	printf 'Cflags: -I%s\n' "$root/include/libsmartcols" >>"$root/lib/pkgconfig/smartcols.pc"
	cp "$work/util-linux/.libs/libsmartcols.a" "$root/lib/"
}

build_smartcols
link_headers zstd.h zstd_errors.h zlib.h zconf.h
if [ ! -f build-wheel/build.ninja ]; then
	meson setup --buildtype=release --prefix=/ --libdir=lib -Dprefer_static=true \
		-Dtests=false -Dlibdw=disabled -Diberty=disabled -Dsqlite=disabled -Dtop=disabled \
		-Dman_pages=disabled \
		-Dc_args="-ffile-prefix-map=$PWD=." -Dc_link_args=-Wl,--build-id=sha1 -Dtoolkit_include="$cuda_include" build-wheel
fi
ninja -C build-wheel
rm -rf "$work/stage"
DESTDIR=$work/stage meson install -C build-wheel --no-rebuild --strip --quiet
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
exec "$python" deploy/packaging/wheel.py "$work/stage" "$out" "$version" \
	"manylinux_$(printf %s "$glibc" | tr . _)_$machine"
