#!/bin/sh
# SPDX-License-Identifier: MIT
# Inside of slurm_node.sh: starts munge, slurmctld and slurmd, and runs job.sh.
host=$(hostname)
mkdir -p /etc/slurm /var/spool/s /var/spool/d /run/munge /var/log/munge /var/spool/cudamem
cat >/etc/slurm/slurm.conf <<C
ClusterName=t
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
StateSaveLocation=/var/spool/s
SlurmdSpoolDir=/var/spool/d
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=2
TaskProlog=/opt/cm/task_prolog.sh
Epilog=/opt/cm/epilog_here.sh
SlurmctldPidFile=/run/c.pid
SlurmdPidFile=/run/d.pid
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=500
PartitionName=p Nodes=ALL Default=YES State=UP
C
[ -f /etc/munge/munge.key ] || dd if=/dev/urandom of=/etc/munge/munge.key bs=1 count=1024 2>/dev/null
chown -R munge /run/munge /var/log/munge /var/lib/munge /etc/munge
chmod 400 /etc/munge/munge.key
su -s /bin/sh munge -c '/usr/sbin/munged --force'
slurmctld
slurmd -D >/var/log/slurmd.out 2>&1 &
for _ in $(seq 100); do
	sinfo -h -o %t 2>/dev/null | grep -q idle && break
	sleep 0.2
done
cd /opt/cm || exit 1
timeout 40 sbatch -W -o /opt/cm/out.txt -e /dev/null job.sh >/dev/null || tail -5 /var/log/slurmd.out
job=$(cat /opt/cm/job.id)
for _ in $(seq 100); do
	[ -e /dev/shm/cudamem-job."$job" ] || break
	sleep 0.2
done
cat out.txt
ls /var/spool/cudamem
/opt/cm/cudamem-jobsummary "$job"
