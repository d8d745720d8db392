/* SPDX-License-Identifier: MIT */
/* The checks of a running process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/finder.h"
#include "stats/reader.h"
#include "stats/start_time.h"
#include "stats/units.h"
#include "tools/doctor/checks.h"
#include "tools/run/library.h"
#include "tools/run/loader.h"

static FILE *open_proc(pid_t pid, const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fopen(path, "re");
}

/* The maps of a process; NULL with errno: it is gone, or may not be looked at. */
static FILE *open_maps(pid_t pid)
{
	FILE *maps = open_proc(pid, "maps");
	int c;

	if (!maps)
		return NULL;
	/* Some kernels check the rights only when the file is read. */
	errno = ESRCH;
	c = fgetc(maps);
	if (c != EOF && ungetc(c, maps) != EOF)
		return maps;
	(void)fclose(maps);
	return NULL;
}

struct search {
	struct cm_find find;
	bool held, found;
};

static void keep_best(void *data, const struct cm_find *find)
{
	struct search *search = data;

	if (search->held)
		return;
	search->find = *find;
	search->found = true;
	search->held = find->held;
}

/* NULL: there is none that can be read; `why` says the reason, or is empty if there is none. */
static struct cm_reader *open_region(pid_t pid, char why[CM_READER_WHY_BYTES])
{
	struct search search = {.found = false};
	struct cm_reader *reader = NULL;

	*why = '\0';
	(void)cm_find_regions(NULL, pid, keep_best, &search);
	if (!search.found || cm_reader_open(search.find.path, &reader, why))
		return NULL;
	if (search.held)
		reader->pid = pid;
	return reader;
}

void cm_check_PROCESS(const struct cm_patient *patient, struct cm_finding *finding)
{
	char why[CM_READER_WHY_BYTES];
	struct cm_reader *left;
	uint64_t start;
	FILE *maps;

	if (cm_process_start_time((uint32_t)patient->pid, &start)) {
		left = open_region(patient->pid, why);
		if (left) {
			cm_see(finding, CM_VERDICT_NOTE, "process %d has ended", (int)patient->pid);
		} else {
			cm_see(finding, CM_VERDICT_FAIL, "there is no process %d",
			       (int)patient->pid);
			cm_remedy(finding, "%s ls lists those that use the library", CM_PROGRAM);
		}
		cm_reader_close(left);
		return;
	}
	maps = open_maps(patient->pid);
	if (!maps) {
		cm_see(finding, CM_VERDICT_FAIL, "you may not look at process %d: %s",
		       (int)patient->pid, strerror(errno));
		cm_remedy(finding, "run %s as the user of the process, or as root", CM_PROGRAM);
	} else {
		cm_see(finding, CM_VERDICT_OK, "process %d runs", (int)patient->pid);
	}
	if (maps)
		(void)fclose(maps);
}

/* The line of the maps that has the library; false: none. The caller frees `*ret_line`. */
static bool find_mapping(pid_t pid, char **ret_line)
{
	FILE *maps = open_proc(pid, "maps");
	bool found = false;
	size_t room = 0;

	while (maps && !found && getline(ret_line, &room, maps) > 0)
		found = strstr(*ret_line, "/" CM_LIBRARY_NAME) != NULL;
	if (maps)
		(void)fclose(maps);
	return found;
}

/* Whether LD_PRELOAD of the process, when it was started, has the library. */
static bool was_preloaded(pid_t pid)
{
	FILE *file = open_proc(pid, "environ");
	char *entry = NULL;
	bool found = false;
	size_t room = 0;

	while (file && !found && getdelim(&entry, &room, '\0', file) > 0)
		found = !strncmp(entry, "LD_PRELOAD=", 11) && strstr(entry, CM_LIBRARY_NAME);
	free(entry);
	if (file)
		(void)fclose(file);
	return found;
}

static void see_missing_library(const struct cm_patient *patient, struct cm_finding *finding)
{
	char link[64], path[PATH_MAX];
	enum cm_loader cause;

	(void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)patient->pid);
	cause = cm_loader_find(link, patient->library, path);
	if (!was_preloaded(patient->pid)) {
		cm_see(finding, CM_VERDICT_FAIL,
		       "process %d was not started with the library: LD_PRELOAD does not name it",
		       (int)patient->pid);
		cm_remedy(finding, "start it with '%s run -- COMMAND'", CM_PROGRAM);
	} else if (cause != CM_LOADER_PRELOADS) {
		cm_see(finding, CM_VERDICT_FAIL, "the program of process %d %s", (int)patient->pid,
		       cm_loader_why(cause));
		cm_remedy(finding, "%s", cm_loader_remedy(cause));
	} else {
		cm_see(finding, CM_VERDICT_FAIL,
		       "process %d has the library in LD_PRELOAD, but has not loaded it: its "
		       "loader said why on its stderr",
		       (int)patient->pid);
		cm_remedy(finding, "%s doctor -- COMMAND asks the loader again", CM_PROGRAM);
	}
}

void cm_check_PROCESS_LIBRARY(const struct cm_patient *patient, struct cm_finding *finding)
{
	FILE *maps = open_maps(patient->pid);
	char *line = NULL;

	if (!maps) {
		cm_see(finding, CM_VERDICT_OK, "not looked at: the process is gone or not yours");
		return;
	}
	(void)fclose(maps);
	if (!find_mapping(patient->pid, &line)) {
		see_missing_library(patient, finding);
	} else if (strstr(line, " (deleted)")) {
		cm_see(finding, CM_VERDICT_NOTE,
		       "the library was replaced since process %d started: it uses the old one",
		       (int)patient->pid);
		cm_remedy(finding, "restart the program to use the new one");
	} else {
		line[strcspn(line, "\n")] = '\0';
		cm_see(finding, CM_VERDICT_OK, "process %d has loaded %.400s", (int)patient->pid,
		       strchr(line, '/'));
	}
	free(line);
}

void cm_check_PROCESS_REGION(const struct cm_patient *patient, struct cm_finding *finding)
{
	char why[CM_READER_WHY_BYTES], *line = NULL;
	struct cm_reader *reader = open_region(patient->pid, why);
	enum cm_life life;

	if (!reader && *why) {
		cm_see(finding, CM_VERDICT_FAIL, "the region of process %d cannot be read: %s",
		       (int)patient->pid, why);
	} else if (!reader && !find_mapping(patient->pid, &line)) {
		cm_see(finding, CM_VERDICT_OK, "not looked for: the process has no library");
	} else if (!reader) {
		cm_see(finding, CM_VERDICT_NOTE,
		       "process %d has the library and no region: it has not called CUDA yet, or "
		       "could not make one, as it said on its stderr",
		       (int)patient->pid);
		cm_remedy(finding,
			  "look again when it uses the card; '%s doctor' looks at limits "
			  "and space",
			  CM_PROGRAM);
	} else {
		life = cm_reader_life(reader);
		if (life == CM_LIFE_CRASHED)
			cm_remedy(finding, "%s show %d prints its last figures", CM_PROGRAM,
				  (int)patient->pid);
		cm_see(finding, life == CM_LIFE_RUNNING ? CM_VERDICT_OK : CM_VERDICT_NOTE,
		       "process %d %s; its library is version %.31s, region layout %u.%u",
		       (int)patient->pid,
		       life == CM_LIFE_STOPPED   ? "is stopped by a signal or a debugger"
		       : life == CM_LIFE_RUNNING ? "runs"
						 : "has ended and left its region",
		       reader->header.version, reader->header.major, reader->header.minor);
	}
	free(line);
	cm_reader_close(reader);
}

void cm_check_PROCESS_HOOKS(const struct cm_patient *patient, struct cm_finding *finding)
{
	char why[CM_READER_WHY_BYTES];
	struct cm_reader *reader = open_region(patient->pid, why);
	const uint64_t *calls = reader ? reader->header.entry_point : NULL;

	if (!calls) {
		cm_see(finding, CM_VERDICT_OK, "not looked at: the process has no region");
	} else if (calls[CM_ENTRY_UNCOVERED]) {
		cm_see(finding, CM_VERDICT_WARN,
		       "%s of driver functions for versions that the library does not know: what "
		       "these allocate is not cached",
		       cm_count_of((int64_t)calls[CM_ENTRY_UNCOVERED], "look-up").text);
		cm_remedy(finding, "install a library that is newer than the program's CUDA");
	} else {
		cm_see(finding, CM_VERDICT_OK,
		       "calls by symbol: %llu; functions found by dlsym: %llu, by "
		       "cuGetProcAddress: %llu",
		       (unsigned long long)calls[CM_ENTRY_SYMBOL],
		       (unsigned long long)calls[CM_ENTRY_DLSYM],
		       (unsigned long long)calls[CM_ENTRY_GETPROC]);
	}
	cm_reader_close(reader);
}

void cm_check_PROCESS_CONTROL(const struct cm_patient *patient, struct cm_finding *finding)
{
	char why[CM_READER_WHY_BYTES];
	struct cm_reader *reader = open_region(patient->pid, why);

	if (!reader || reader->header.flags & CM_REGION_CONTROL) {
		cm_see(finding, CM_VERDICT_OK, "%s",
		       reader ? "a thread answers commands"
			      : "not looked at: the process has no region");
	} else {
		cm_see(finding, CM_VERDICT_NOTE,
		       "no thread of process %d answers: trim, reset and history do not work",
		       (int)patient->pid);
		cm_remedy(finding, "start it with CUDAMEM_CONF=control:on");
	}
	cm_reader_close(reader);
}

void cm_check_PROCESS_RECORD(const struct cm_patient *patient, struct cm_finding *finding)
{
	char why[CM_READER_WHY_BYTES];
	struct cm_reader *reader = open_region(patient->pid, why);
	const struct cm_record *record = reader ? &reader->header.record : NULL;

	if (!record) {
		cm_see(finding, CM_VERDICT_OK, "not looked at: the process has no region");
	} else if (record->stacks_lost || record->texts_lost || record->modules_lost) {
		cm_see(finding, CM_VERDICT_NOTE,
		       "%llu stacks, %llu texts and %llu objects were not recorded: their tables "
		       "are full",
		       (unsigned long long)record->stacks_lost,
		       (unsigned long long)record->texts_lost,
		       (unsigned long long)record->modules_lost);
		cm_remedy(finding, "record less (stack_depth:8), or set stack_table_mb and "
				   "text_table_mb higher");
	} else {
		cm_see(finding, CM_VERDICT_OK, "nothing is lost of %s",
		       cm_count_of((int64_t)record->stack_count, "stack").text);
	}
	cm_reader_close(reader);
}
