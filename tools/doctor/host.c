/* SPDX-License-Identifier: MIT */
/* The checks of the machine, the container and the environment. */
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "stats/config.h"
#include "stats/finder.h"
#include "stats/reader.h"
#include "stats/region.h"
#include "stats/units.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/elf_needs.h"
#include "tools/output/size.h"
#include "tools/processes/collect.h"
#include "tools/run/library.h"

/* The size of a small program's region, and the free space below which few programs fit: the usual
 * 64 MiB of a container, half of which is left to programs, hold 9. */
#define REGION_BYTES   (UINT64_C(3400) << 10)
#define ROOM_BYTES     (UINT64_C(16) << 20)
#define CONTEXT_EVENTS 12050 /* the first driver with cuCtxRecordEvent */
#define DAY_S          86400

void cm_check_LIBRARY(const struct cm_patient *patient, struct cm_finding *finding)
{
	const char *path = patient->library, *given = patient->options->library;
	struct statvfs system;
	struct stat st;

	if (!*path || stat(path, &st)) {
		cm_see(finding, CM_VERDICT_FAIL, "%s is not %s", CM_LIBRARY_NAME,
		       given ? given : "where it was installed");
		cm_remedy(finding, "name it with --library FILE, here and for '%s run'",
			  CM_PROGRAM);
	} else if (strpbrk(path, " :")) {
		cm_see(finding, CM_VERDICT_FAIL,
		       "%s has a blank or a colon in its path, which LD_PRELOAD cannot name", path);
		cm_remedy(finding, "name a copy elsewhere with --library");
	} else if (st.st_mode & S_IWOTH) {
		cm_see(finding, CM_VERDICT_FAIL, "all users may change %s", path);
		cm_remedy(finding, "chmod o-w %s", path);
	} else if (!statvfs(path, &system) && system.f_flag & ST_NOEXEC) {
		cm_see(finding, CM_VERDICT_FAIL,
		       "%s is on a file system that is mounted noexec: it cannot be loaded", path);
		cm_remedy(finding, "name a copy elsewhere with --library");
	} else {
		cm_see(finding, CM_VERDICT_OK, "%s; this tool is version %s", path, CM_VERSION);
	}
}

void cm_check_LIBRARY_GLIBC(const struct cm_patient *patient, struct cm_finding *finding)
{
	const char *here = gnu_get_libc_version();
	char needed[CM_GLIBC_BYTES];
	int err;

	if (!*patient->library) {
		cm_see(finding, CM_VERDICT_OK, "not looked at: there is no library");
		return;
	}
	err = cm_elf_needs_glibc(patient->library, needed);
	if (err) {
		cm_see(finding, CM_VERDICT_FAIL, "%s is no library that this machine can load%s%s",
		       patient->library, err == -ENOEXEC ? "" : ": ",
		       err == -ENOEXEC ? "" : strerror(-err));
		cm_remedy(finding, "install a build for this machine");
	} else if (cm_glibc_compare(needed, here) > 0) {
		cm_see(finding, CM_VERDICT_FAIL,
		       "the library needs glibc %s, here is %s: each program under it would end "
		       "at once",
		       needed, here);
		cm_remedy(finding, "install a build for glibc %s or earlier", here);
	} else {
		cm_see(finding, CM_VERDICT_OK, "the library needs glibc %s, here is %s", needed,
		       here);
	}
}

void cm_check_DRIVER(const struct cm_patient *patient, struct cm_finding *finding)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	int (*get_version)(int *version) = NULL;
	int version = 0;

	(void)patient;
	if (driver)
		*(void **)&get_version = dlsym(driver, "cuDriverGetVersion");
	if (!driver) {
		cm_see(finding, CM_VERDICT_FAIL,
		       "libcuda.so.1 cannot be loaded: no CUDA program runs here (%s)", dlerror());
		cm_remedy(finding, "install NVIDIA's driver, or start the container with its "
				   "devices (docker run --gpus all)");
	} else if (!get_version || get_version(&version) || version <= 0) {
		cm_see(finding, CM_VERDICT_WARN, "libcuda.so.1 does not say its version");
	} else if (version < CONTEXT_EVENTS) {
		cm_see(finding, CM_VERDICT_NOTE,
		       "the driver is for CUDA %d.%d; before 12.5 it has no events of contexts, so "
		       "the cache waits for the device before it reuses memory",
		       version / 1000, version % 1000 / 10);
		cm_remedy(finding, "install a driver for CUDA 12.5 or later");
	} else {
		cm_see(finding, CM_VERDICT_OK, "libcuda.so.1 for CUDA %d.%d", version / 1000,
		       version % 1000 / 10);
	}
}

#define CARDS_MAX 16

/* The device of a discrete card, of WSL or of Tegra. False: there is none. */
static bool find_card(char path[32])
{
	static const char *const others[] = {"/dev/dxg", "/dev/nvmap"};
	struct stat st;
	size_t i;

	for (i = 0; i < CARDS_MAX; i++) {
		(void)snprintf(path, 32, "/dev/nvidia%zu", i);
		if (!stat(path, &st) && S_ISCHR(st.st_mode))
			return true;
	}
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		(void)snprintf(path, 32, "%s", others[i]);
		if (!stat(path, &st) && S_ISCHR(st.st_mode))
			return true;
	}
	return false;
}

void cm_check_CARD(const struct cm_patient *patient, struct cm_finding *finding)
{
	char path[32];

	(void)patient;
	if (!find_card(path)) {
		cm_see(finding, CM_VERDICT_WARN, "no card: /dev has no device of one");
		cm_remedy(finding, "in a container: start it with its devices (docker run --gpus "
				   "all); else: nvidia-smi");
	} else if (access(path, R_OK | W_OK)) {
		cm_see(finding, CM_VERDICT_FAIL, "you may not use %s: %s", path, strerror(errno));
		cm_remedy(finding, "ls -l %s shows the group that may", path);
	} else {
		cm_see(finding, CM_VERDICT_OK, "%s is there", path);
	}
}

void cm_check_NVML(const struct cm_patient *patient, struct cm_finding *finding)
{
	(void)patient;
	if (dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
		cm_see(finding, CM_VERDICT_OK, "libnvidia-ml.so.1 can be loaded");
		return;
	}
	cm_see(finding, CM_VERDICT_NOTE,
	       "libnvidia-ml.so.1 not found: 'ls --all' cannot list programs without the library");
	cm_remedy(finding, "in a container: add 'utility' to NVIDIA_DRIVER_CAPABILITIES");
}

static void read_config(struct cm_config *config)
{
	cm_config_read(config, getenv, environ, NULL, NULL);
}

/* File systems whose files other machines change, or whose locks are slow. */
static const char *name_network(const struct statfs *system)
{
	switch (system->f_type) {
	case NFS_SUPER_MAGIC:
		return "NFS";
	case SMB_SUPER_MAGIC:
		return "SMB";
	case FUSE_SUPER_MAGIC:
		return "FUSE";
	default:
		return NULL;
	}
}

static void see_folder(const char *dir, const struct statfs *system, struct cm_finding *finding)
{
	const uint64_t unused = (uint64_t)system->f_bavail * (uint64_t)system->f_bsize;
	const uint64_t left = cm_region_left_bytes((uint64_t)system->f_blocks *
						   (uint64_t)system->f_bsize);
	const uint64_t room = unused > left ? unused - left : 0;

	if (name_network(system)) {
		cm_see(finding, CM_VERDICT_WARN,
		       "%s is on %s: each change of a counter may go over the network", dir,
		       name_network(system));
		cm_remedy(finding, "CUDAMEM_CONF=region_dir:/dev/shm");
	} else if (system->f_blocks && room < ROOM_BYTES) {
		cm_see(finding, CM_VERDICT_WARN,
		       "%s has %s left for regions, enough for %s; others keep their "
		       "figures in memory, which a crash loses",
		       dir, cm_size_format((int64_t)room).text,
		       cm_count_of((int64_t)(room / REGION_BYTES), "program").text);
		cm_remedy(finding, "in a container: start it with a larger one (docker run "
				   "--shm-size 1g)");
	} else {
		cm_see(finding, CM_VERDICT_OK, "%s has %s left", dir,
		       cm_size_format((int64_t)unused).text);
	}
}

void cm_check_REGION_DIR(const struct cm_patient *patient, struct cm_finding *finding)
{
	struct cm_config config;
	struct statfs system;
	struct stat st;

	(void)patient;
	read_config(&config);
	if (stat(config.region_dir, &st) || statfs(config.region_dir, &system) ||
	    access(config.region_dir, W_OK | X_OK)) {
		cm_see(finding, CM_VERDICT_WARN,
		       "%s: %s; programs keep their figures in memory, which a crash loses",
		       config.region_dir, strerror(errno));
		cm_remedy(finding,
			  "mount -t tmpfs -o mode=1777 shm %s, or set region_dir in "
			  "CUDAMEM_CONF",
			  config.region_dir);
	} else if (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX)) {
		cm_see(finding, CM_VERDICT_WARN,
		       "in %s each user may remove the files of others: the sticky bit is not set",
		       config.region_dir);
		cm_remedy(finding, "chmod +t %s", config.region_dir);
	} else {
		see_folder(config.region_dir, &system, finding);
	}
}

/* The lowest of the limits on the size of a region. */
void cm_check_LIMITS(const struct cm_patient *patient, struct cm_finding *finding)
{
	const struct cm_region_params params = {0};
	const uint64_t bytes = cm_region_file_bytes(&params);
	static const struct {
		int resource;
		const char *name, *option;
	} limits[] = {
		{RLIMIT_FSIZE, "the length of files", "-f"},
		{RLIMIT_AS, "address space", "-v"},
	};
	struct rlimit limit;
	size_t i;

	(void)patient;
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (getrlimit(limits[i].resource, &limit) || limit.rlim_cur == RLIM_INFINITY ||
		    limit.rlim_cur >= bytes)
			continue;
		cm_see(finding, CM_VERDICT_WARN,
		       "%s is limited to %s, and a region has %s (hardly any of it in use): "
		       "programs cannot be watched",
		       limits[i].name, cm_size_format((int64_t)limit.rlim_cur).text,
		       cm_size_format((int64_t)bytes).text);
		cm_remedy(finding, "ulimit %s unlimited", limits[i].option);
		return;
	}
	cm_see(finding, CM_VERDICT_OK, "a region of %s fits", cm_size_format((int64_t)bytes).text);
}

void cm_check_OTHERS(const struct cm_patient *patient, struct cm_finding *finding)
{
	struct stat st;

	(void)patient;
	if (!cm_processes_can_be_seen()) {
		cm_see(finding, CM_VERDICT_WARN, "/proc is not mounted: no process can be found");
		cm_remedy(finding, "mount -t proc proc /proc");
	} else if (stat("/proc/1", &st) && errno == ENOENT) {
		cm_see(finding, CM_VERDICT_NOTE,
		       "processes of other users are hidden (/proc is mounted with hidepid): only "
		       "your own are found");
		cm_remedy(finding, "run %s as root, or in the group that /proc is mounted with",
			  CM_PROGRAM);
	} else {
		cm_see(finding, CM_VERDICT_OK,
		       geteuid() ? "your own processes can be read"
				 : "processes of all users can be read");
	}
}

/* Reads at most `bytes` - 1 of a file, on one line. */
static void read_line(const char *path, char *to, size_t bytes)
{
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(to, 1, bytes - 1, file) : 0, i;

	if (file)
		(void)fclose(file);
	while (n && strchr(" \t\n", to[n - 1]))
		n--;
	to[n] = '\0';
	for (i = 0; i < n; i++)
		if (to[i] == '\n' || to[i] == '\t')
			to[i] = ' ';
}

void cm_check_PRELOAD_FILE(const struct cm_patient *patient, struct cm_finding *finding)
{
	char names[256];

	(void)patient;
	read_line("/etc/ld.so.preload", names, sizeof(names));
	if (!*names) {
		cm_see(finding, CM_VERDICT_OK, "/etc/ld.so.preload names nothing");
		return;
	}
	cm_see(finding, CM_VERDICT_NOTE, "/etc/ld.so.preload loads into each process: %s", names);
	cm_remedy(finding, "look whether one of them replaces cuMemAlloc: nm -D FILE | grep "
			   "cuMemAlloc");
}

/* Libraries that are known to replace CUDA's functions for memory, by a part of their names. */
static const struct {
	const char *part, *whose;
} rivals[] = {
	{"libvgpu", "HAMi's, which limits the memory of containers"},
	{"libnvshare", "nvshare's, which swaps the memory of whole programs"},
	{"libgemhook", "Gemini's, which shares a card by time"},
	{"libcuda-control", "vcuda's, which limits the memory of containers"},
};

static bool see_rival(const char *path, struct cm_finding *finding)
{
	const char *name = basename(path);
	size_t i;

	for (i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++) {
		if (!strstr(name, rivals[i].part))
			continue;
		cm_see(finding, CM_VERDICT_WARN,
		       "LD_PRELOAD has %s, by its name %s: both replace cuMemAlloc, and the first "
		       "one in LD_PRELOAD is asked",
		       path, rivals[i].whose);
		cm_remedy(finding,
			  "if its limits must hold, set them for the library instead: "
			  "'%s run --limit SIZE'",
			  CM_PROGRAM);
		return true;
	}
	return false;
}

void cm_check_PRELOAD(const struct cm_patient *patient, struct cm_finding *finding)
{
	const char *value = getenv("LD_PRELOAD");
	char words[1024], *rest = NULL, *word;

	(void)patient;
	(void)snprintf(words, sizeof(words), "%s", value ? value : "");
	for (word = strtok_r(words, " :", &rest); word; word = strtok_r(NULL, " :", &rest))
		if (see_rival(word, finding))
			return;
	if (value && *value)
		cm_see(finding, CM_VERDICT_OK, "LD_PRELOAD is %.400s", value);
	else
		cm_see(finding, CM_VERDICT_OK, "LD_PRELOAD is not set");
}

void cm_check_INJECTION(const struct cm_patient *patient, struct cm_finding *finding)
{
	static const char *const names[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};
	const char *value;
	size_t i;

	(void)patient;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		value = getenv(names[i]);
		if (!value || !*value)
			continue;
		cm_see(finding, CM_VERDICT_NOTE,
		       "%s is %.300s: CUDA programs load this tool as well", names[i], value);
		cm_remedy(finding, "unset %s, unless you want it", names[i]);
		return;
	}
	cm_see(finding, CM_VERDICT_OK, "no tool is injected");
}

/* Keeps the first message. */
static void keep_first(void *data, const char *text)
{
	struct cm_finding *finding = data;

	if (*finding->seen)
		return;
	cm_see(finding, CM_VERDICT_FAIL, "%s", text);
	cm_remedy(finding, "'%s conf' lists all options and mistakes", CM_PROGRAM);
}

void cm_check_CONF(const struct cm_patient *patient, struct cm_finding *finding)
{
	struct cm_config config;

	(void)patient;
	cm_config_read(&config, getenv, environ, keep_first, finding);
	if (!config.errors)
		cm_see(finding, CM_VERDICT_OK, "CUDAMEM_CONF has no mistake");
	else if (!*finding->seen) /* warn:off */
		keep_first(finding, "CUDAMEM_CONF has mistakes");
}

struct crashed {
	unsigned count;
	int64_t bytes;
};

static void count_crashed(void *data, const struct cm_find *find)
{
	struct crashed *crashed = data;
	char why[CM_READER_WHY_BYTES];
	struct cm_reader *reader;
	struct stat st;

	if (stat(find->path, &st) || time(NULL) - st.st_mtime < DAY_S ||
	    cm_reader_open(find->path, &reader, why))
		return;
	if (cm_reader_is_over(reader)) {
		crashed->count++;
		crashed->bytes += st.st_blocks * 512;
	}
	cm_reader_close(reader);
}

void cm_check_CRASHED(const struct cm_patient *patient, struct cm_finding *finding)
{
	struct crashed crashed = {0};
	struct cm_config config;

	(void)patient;
	read_config(&config);
	(void)cm_find_regions(config.region_dir, 0, count_crashed, &crashed);
	if (!crashed.count) {
		cm_see(finding, CM_VERDICT_OK, "no region of a crash is older than a day");
		return;
	}
	cm_see(finding, CM_VERDICT_NOTE, "crashes more than a day ago left %s in %s; they take %s",
	       cm_count_of(crashed.count, "region").text, config.region_dir,
	       cm_size_format(crashed.bytes).text);
	cm_remedy(finding, "%s ls -o +REGION --where 'STATE == crashed' names the files",
		  CM_PROGRAM);
}
