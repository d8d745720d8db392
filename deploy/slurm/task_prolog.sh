#!/bin/sh
# SPDX-License-Identifier: MIT
# TaskProlog: puts the library into the tasks of jobs that ask for it, by CUDAMEM=1 in the
# environment or --comment=cudamem. What is printed is Slurm's way to set a task's environment.
# The regions of a job lie in a folder of its own, and stay when a task ends: epilog.sh reads them.
library=${CUDAMEM_LIBRARY:-/usr/lib/cudamem/libcudamem.so}
case ${CUDAMEM:-0}:${SLURM_JOB_COMMENT:-} in
1:* | *:cudamem) ;;
*) exit 0 ;;
esac
folder=/dev/shm/cudamem-job.$SLURM_JOB_ID
[ -r "$library" ] || exit 0
# Of several tasks on a node one makes it.
mkdir -m 700 "$folder" 2>/dev/null || [ -O "$folder" ] || exit 0
echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}"
echo "export CUDAMEM_CONF=${CUDAMEM_CONF:+$CUDAMEM_CONF,}region_dir:$folder,region_keep:on"
