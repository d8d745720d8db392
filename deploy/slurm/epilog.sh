#!/bin/sh
# SPDX-License-Identifier: MIT
# Epilog: keeps what the job's regions on this node say, and removes them. CUDAMEMSTAT_SUMMARIES is
# a folder that all nodes share. The regions are the user's files: they are read with the user's
# rights.
tool=${CUDAMEMSTAT:-/usr/bin/cudamemstat}
out=${CUDAMEMSTAT_SUMMARIES:-/var/spool/cudamem}
folder=/dev/shm/cudamem-job.$SLURM_JOB_ID
# A folder that the job's user has made, and no link to another.
[ -d "$folder" ] && [ ! -L "$folder" ] || exit 0
[ "$(stat -c %u "$folder")" = "$SLURM_JOB_UID" ] || exit 0

as_user()
{
	setpriv --reuid="$SLURM_JOB_UID" --clear-groups --no-new-privs "$@"
}

mkdir -p "$out"
name=$out/$SLURM_JOB_ID.$(hostname -s)
if as_user timeout 20 "$tool" ls --dir "$folder" --json >"$name.json.part" 2>/dev/null; then
	mv "$name.json.part" "$name.json"
else
	rm -f "$name.json.part"
fi
# Of those that crashed all is kept: a snapshot has their events and stacks.
as_user timeout 20 "$tool" ls --dir "$folder" --raw -n -o PID --where 'STATE == crashed' \
	2>/dev/null | sort -u | while read -r pid; do
	as_user timeout 20 "$tool" snapshot --dir "$folder" "$pid" -O - \
		>"$name.$pid.cudamem" 2>/dev/null || rm -f "$name.$pid.cudamem"
done
as_user rm -rf "$folder"
exit 0
