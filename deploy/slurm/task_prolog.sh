#!/bin/sh
# SPDX-License-Identifier: MIT
# TaskProlog: puts the library into the tasks of jobs that ask for it, by CUDAMEM=1 in the
# environment or --comment=cudamem. What is printed is Slurm's way to set a task's environment.
# The regions of a job lie in a folder of its own, and stay when a task ends: epilog.sh reads them.
case ${CUDAMEM:-0}:${SLURM_JOB_COMMENT:-} in
1:* | *:cudamem) ;;
*) exit 0 ;;
esac
# LIBCUDAMEM names the library, unless it is here or where Debian's package has it.
for library in "${LIBCUDAMEM:-/usr/lib/cudamem/libcudamem.so}" /usr/lib/*/cudamem/libcudamem.so; do
	[ ! -r "$library" ] || break
done
if [ ! -r "$library" ]; then
	echo "print cudamem: no libcudamem.so on $(hostname -s): the task runs without it"
	exit 0
fi
folder=/dev/shm/cudamem-job.$SLURM_JOB_ID
# Of several tasks on a node one makes it.
mkdir -m 700 "$folder" 2>/dev/null || [ -O "$folder" ] || exit 0
echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}"
echo "export CUDAMEM_CONF=${CUDAMEM_CONF:+$CUDAMEM_CONF,}region_dir:$folder,region_keep:on"
