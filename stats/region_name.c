/* SPDX-License-Identifier: MIT */
#include "stats/region_name.h"

#include <stdio.h>
#include <string.h>

#include "stats/layout.h"
#include "stats/units.h"

static bool parse_part(const char **text, char end, uint64_t max, uint64_t *ret_part)
{
	const size_t length = strcspn(*text, ".");
	char digits[24];

	if (length >= sizeof(digits) || (*text)[length] != end)
		return false;
	memcpy(digits, *text, length);
	digits[length] = '\0';
	*text += length + (end != '\0');
	return !cm_number_parse(digits, max, ret_part);
}

bool cm_region_name_parse(const char *text, struct cm_region_name *ret_name)
{
	const size_t prefix = strlen(CM_REGION_PREFIX);
	struct cm_region_name name;

	if (strncmp(text, CM_REGION_PREFIX, prefix))
		return false;
	text += prefix;
	if (!parse_part(&text, '.', UINT32_MAX, &name.uid) ||
	    !parse_part(&text, '.', INT32_MAX, &name.pid) ||
	    !parse_part(&text, '\0', UINT64_MAX, &name.start))
		return false;
	*ret_name = name;
	return true;
}

/* A line of /proc/PID/status, without its end and its `label`. False: there is none. */
static bool read_status(pid_t pid, const char *label, char *line, int bytes)
{
	const size_t length = strlen(label);
	bool found = false;
	char path[32];
	FILE *status;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = fopen(path, "re");
	if (!status)
		return false;
	while (!found && fgets(line, bytes, status))
		found = !strncmp(line, label, length);
	(void)fclose(status);
	if (found) {
		memmove(line, line + length, strlen(line + length) + 1);
		line[strcspn(line, "\n")] = '\0';
	}
	return found;
}

pid_t cm_process_inner_pid(pid_t pid)
{
	char line[512], *field;
	uint64_t inner = 0;

	if (!read_status(pid, "NSpid:", line, sizeof(line)))
		return pid;
	field = strrchr(line, '\t');
	if (cm_number_parse(field ? field + 1 : line, INT32_MAX, &inner))
		inner = 0;
	return inner ? (pid_t)inner : pid;
}

bool cm_process_runs_as(pid_t pid, uid_t uid)
{
	char line[512], *rest, *field;
	uint64_t number;

	if (!read_status(pid, "Uid:", line, sizeof(line)))
		return false;
	for (field = strtok_r(line, "\t ", &rest); field; field = strtok_r(NULL, "\t ", &rest))
		if (!cm_number_parse(field, UINT32_MAX, &number) && (uid_t)number == uid)
			return true;
	return false;
}
