#!/bin/sh
# SPDX-License-Identifier: MIT
# clean_root.sh [FOLDER]: the README's two commands in a Debian that has nothing but its essential
# packages: as root, and as a user who may not install anything.
#
# The tree goes there as the next commit would have it. Needs root, debootstrap, and a package mirror.
# FOLDER (.cache/clean-root) keeps the pristine system for the next time, and the last root with the
# logs.
set -eu
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:-.cache/clean-root}")
pristine=$folder/pristine
root=$folder/root
logs=$folder/logs
tree=/srv/cudamem
failed=0

# What this machine has been told of proxies, certificates and package indexes holds there too; the
# certificates under another name, as installing ca-certificates writes that file anew.
certificates=/srv/certificates.crt
settings=$(env | grep -E '^(PIP_|[a-z]+_proxy=)' |
	sed "s/'/'\\\\''/g; s/=\(.*\)/='\1'/" | tr '\n' ' ')
if [ -e "${SSL_CERT_FILE:-}" ]; then
	settings="$settings SSL_CERT_FILE=$certificates PIP_CERT=$certificates"
fi

say()
{
	printf 'clean root: %s\n' "$*"
}

# check WHAT COMMAND...
check()
{
	check_what=$1
	shift
	if "$@"; then
		say "ok      $check_what"
	else
		say "FAILED  $check_what"
		failed=$((failed + 1))
	fi
}

# inside USER LOG COMMAND: in namespaces of its own, which take mounts and processes with them.
inside()
{
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --pid --fork --kill-child sh -euc '
		mount --bind "$1" "$1" # a root of its own, as tests mount below it
		mount --rbind /dev "$1/dev"
		mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
		mount -t proc proc "$1/proc"
		# Not in place of this shell, which as number 1 waits for what others leave behind.
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" su -s /bin/sh "$2" -c "$3"
		exit $?
	' inside "$root" "$1" "export PATH=/usr/sbin:/usr/bin:/sbin:/bin $settings; cd $tree; $3" \
		>"$logs/$2" 2>&1 </dev/null
}

make_pristine()
{
	[ ! -e "$pristine/made" ] || return 0
	rm -rf "$pristine"
	mkdir -p "$pristine"
	say "making a Debian 12 in $pristine"
	if ! debootstrap --variant=minbase bookworm "$pristine" >"$logs/debootstrap" 2>&1; then
		tail -n 5 "$logs/debootstrap" >&2
		say "debootstrap failed; the whole output is in $logs/debootstrap"
		exit 1
	fi
	: >"$pristine/made"
}

# make_root OWNER: a fresh copy, with the tree of that user.
make_root()
{
	rm -rf "$root"
	cp -a "$pristine" "$root"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	echo '127.0.0.1 localhost' >"$root/etc/hosts"
	mkdir -p "$root$tree"
	[ ! -e "${SSL_CERT_FILE:-}" ] || cp -L "$SSL_CERT_FILE" "$root$certificates"
	tar --extract -f "$folder/tree.tar" -C "$root$tree"
	chroot "$root" useradd --create-home user
	chroot "$root" chown -R "$1" "$tree"
}

packages()
{
	find "$root/var/lib/dpkg/info" -name '*.list' | wc -l
}

# The one command that a user without rights was told to run; empty where there was none, or more.
told()
{
	commands=$(sed -n 's/^    \(su -c .*\)/\1/p' "$logs/$1")
	[ "$(printf '%s' "$commands" | grep -c '')" = 1 ] && printf '%s\n' "$commands"
}

# As the user would: become root and type what was printed. Only the password is left out.
root_obeys()
{
	inside root "$1-installation" "$(told "$1")"
}

ends_well()
{
	tail -n 1 "$logs/$1" | grep -Eq '^[1-9][0-9]* passed, 0 failed, [0-9]+ skipped$'
}

mkdir -p "$logs"
make_pristine
# Both users get the same, whatever becomes of the tree meanwhile.
git ls-files -z --cached --others --exclude-standard |
	tar --create --null --files-from=- >"$folder/tree.tar"

make_root root
check 'root: ./dev demo' inside root root-demo './dev demo'
check 'root: ./dev test' inside root root-test './dev test'
check 'root: no test fails' ends_well root-test
tail -n 1 "$logs/root-test"

make_root user
for verb in demo test; do
	before=$(packages)
	inside user "user-$verb-first" "./dev $verb" || :
	check "user: ./dev $verb installs nothing" [ "$(packages)" = "$before" ]
	check "user: ./dev $verb prints one command" told "user-$verb-first"
	check "user: that command installs" root_obeys "user-$verb-first"
	check "user: ./dev $verb, then" inside user "user-$verb" "./dev $verb"
done
check 'user: no test fails' ends_well user-test
tail -n 1 "$logs/user-test"

say "the whole output is in $logs"
if [ "$failed" -ne 0 ]; then
	say "$failed checks failed"
	exit 1
fi
