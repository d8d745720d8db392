/* SPDX-License-Identifier: MIT */
#include "tools/processes/identity.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB_VARIABLE  "SLURM_JOB_ID="
#define UID_LINE      "Uid:\t"
#define CGROUP_BYTES  16384
#define ENVIRON_BYTES 131072

static bool is_digit_of_id(char c)
{
	return isxdigit((unsigned char)c) && !isupper((unsigned char)c);
}

static size_t count_hex(const char *text, size_t max)
{
	size_t n = 0;

	while (n < max && is_digit_of_id(text[n]))
		n++;
	return n;
}

/* The last run of exactly 64 hexadecimal digits: the innermost container, whatever the runtime puts
 * around its id. */
static void find_container(const char *line, const char *end, char *ret_id)
{
	size_t n;

	for (; line < end; line += n ? n : 1) {
		n = count_hex(line, (size_t)(end - line));
		if (n != 64)
			continue;
		memcpy(ret_id, line, 64);
		ret_id[64] = '\0';
	}
}

/* A UUID with '-' or, as in the name of a slice, '_'; that of a static pod has neither. */
static bool parse_uuid(const char *text, size_t bytes, char *ret_uuid)
{
	size_t i;

	if (count_hex(text, bytes) >= 32) {
		memcpy(ret_uuid, text, 32);
		ret_uuid[32] = '\0';
		return true;
	}
	if (bytes < 36)
		return false;
	for (i = 0; i < 36; i++) {
		const bool separator = i == 8 || i == 13 || i == 18 || i == 23;

		if (separator ? text[i] != '-' && text[i] != '_' : !is_digit_of_id(text[i]))
			return false;
		ret_uuid[i] = '-';
		if (!separator)
			ret_uuid[i] = text[i];
	}
	ret_uuid[36] = '\0';
	return true;
}

static void find_pod(const char *line, const char *end, char *ret_uid)
{
	const char *word = line;

	while ((word = memmem(word, (size_t)(end - word), "pod", 3))) {
		char uid[37];

		word += 3;
		if (parse_uuid(word, (size_t)(end - word), uid))
			memcpy(ret_uid, uid, sizeof(uid));
	}
}

static void copy_digits(const char *text, const char *end, char *ret_id, size_t bytes)
{
	size_t n = 0;

	while (text + n < end && isdigit((unsigned char)text[n]))
		n++;
	if (!n || n >= bytes)
		return;
	memcpy(ret_id, text, n);
	ret_id[n] = '\0';
}

/* Slurm's folders are .../slurm.../job_ID/step_..., with or without uid_N between. */
static void find_job(const char *line, const char *end, struct cm_identity *identity)
{
	const char *slurm = memmem(line, (size_t)(end - line), "slurm", 5);
	const char *job = slurm ? memmem(slurm, (size_t)(end - slurm), "/job_", 5) : NULL;

	if (job)
		copy_digits(job + 5, end, identity->slurm_job_id, sizeof(identity->slurm_job_id));
}

void cm_identity_parse(const char *cgroup, struct cm_identity *ret_identity)
{
	struct cm_identity identity = {0};
	const char *line = cgroup, *end;

	for (; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		find_container(line, end, identity.container_id);
		find_pod(line, end, identity.pod_uid);
		find_job(line, end, &identity);
	}
	*ret_identity = identity;
}

size_t cm_proc_read(pid_t pid, const char *name, char *to, size_t bytes)
{
	char path[64];
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	file = fopen(path, "re");
	n = file ? fread(to, 1, bytes - 1, file) : 0;
	if (file)
		(void)fclose(file);
	to[n] = '\0';
	return n;
}

/* Where Slurm makes no control groups (proctrack/linuxproc) the environment has the job. */
static void read_job(pid_t pid, struct cm_identity *identity)
{
	static char text[ENVIRON_BYTES];
	const size_t n = cm_proc_read(pid, "environ", text, sizeof(text));
	const char *entry = text;

	for (; entry < text + n; entry += strlen(entry) + 1)
		if (!strncmp(entry, JOB_VARIABLE, strlen(JOB_VARIABLE)))
			copy_digits(entry + strlen(JOB_VARIABLE), text + n, identity->slurm_job_id,
				    sizeof(identity->slurm_job_id));
}

void cm_identity_read(pid_t pid, struct cm_identity *ret_identity)
{
	char text[CGROUP_BYTES];

	(void)cm_proc_read(pid, "cgroup", text, sizeof(text));
	cm_identity_parse(text, ret_identity);
	if (!*ret_identity->slurm_job_id)
		read_job(pid, ret_identity);
}

bool cm_identity_is_user(pid_t pid, uid_t uid)
{
	char text[4096], *end;
	const char *line;
	bool found = false;
	int i;

	(void)cm_proc_read(pid, "status", text, sizeof(text));
	line = strstr(text, UID_LINE);
	if (!line)
		return true;
	line += strlen(UID_LINE);
	/* real, effective, saved, of the file system */
	for (i = 0; i < 4; i++, line = end) {
		const unsigned long value = strtoul(line, &end, 10);

		if (end == line)
			return true;
		found |= value == uid;
	}
	return found;
}
