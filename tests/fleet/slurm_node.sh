#!/bin/sh
# SPDX-License-Identifier: MIT
# A real Slurm of one node, in a copy-on-write copy of this machine's root that goes away with the
# mount namespace: slurm_node.sh STAGE
# STAGE has the programs and becomes /opt/cm; the output of job.sh in it is printed. Run by
# `unshare -m`.
set -e
stage=$1
mount -t tmpfs -o size=2g overlay "$stage/root"
cd "$stage/root"
mkdir up work mnt
mount -t overlay overlay -o lowerdir=/,upperdir=up,workdir=work mnt
mount --rbind /sys mnt/sys
mount --rbind /dev mnt/dev
mount -t proc proc mnt/proc
mount -t tmpfs tmpfs mnt/tmp
mount --make-rslave mnt/dev
mount -t tmpfs tmpfs mnt/dev/shm
# No service may start when it is installed.
printf '#!/bin/sh\nexit 101\n' >mnt/usr/sbin/policy-rc.d
chmod +x mnt/usr/sbin/policy-rc.d
chroot mnt env DEBIAN_FRONTEND=noninteractive timeout 120 apt-get -q install -y \
	--no-install-recommends slurmd slurmctld slurm-client munge >"$stage/apt.log" 2>&1 || {
	echo 'Slurm cannot be installed here'
	exit 77
}
mkdir -p mnt/opt/cm
cp -R "$stage/files/." mnt/opt/cm/
exec timeout 90 unshare -pf --mount-proc chroot mnt sh /opt/cm/inside.sh
