/* SPDX-License-Identifier: MIT */
#include "tests/unit/region_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cm_region_fixture_init(void **state)
{
	struct cm_region_fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	(void)snprintf(f->dir, sizeof(f->dir), "cudamem-region-XXXXXX");
	*state = f;
	return mkdtemp(f->dir) ? 0 : -1;
}

int cm_region_fixture_fini(void **state)
{
	struct cm_region_fixture *f = *state;
	char path[400];
	struct dirent *entry;
	DIR *dir = opendir(f->dir);

	if (f->region) {
		cm_region_remove(f->region);
		cm_region_abandon(f->region);
	}
	while (dir && (entry = readdir(dir))) {
		(void)snprintf(path, sizeof(path), "%s/%s", f->dir, entry->d_name);
		(void)unlink(path);
		(void)rmdir(path);
	}
	if (dir)
		(void)closedir(dir);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

int cm_region_fixture_create(struct cm_region_fixture *f, uint32_t events)
{
	const struct cm_region_params params = {
		.dir = f->dir, .version = "1.2.3", .events = events};

	return cm_region_create(&params, &f->region);
}

int cm_region_fixture_files(const struct cm_region_fixture *f)
{
	struct dirent *entry;
	DIR *dir = opendir(f->dir);
	int n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		(void)closedir(dir);
	return n;
}
