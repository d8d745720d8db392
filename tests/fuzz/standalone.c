/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without an engine: once for every file of the folders that are named. So the
 * corpus, with every input that ever failed, is replayed by any compiler as an ordinary test.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	long bytes = -1;

	if (file && !fseek(file, 0, SEEK_END))
		bytes = ftell(file);
	if (bytes >= 0)
		data = malloc((size_t)bytes + 1);
	if (!data || fseek(file, 0, SEEK_SET) ||
	    fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
		perror(path);
		return 1;
	}
	(void)fclose(file);
	(void)LLVMFuzzerTestOneInput(data, (size_t)bytes);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int i, files = 0;
	DIR *folder;

	for (i = 1; i < argc; i++) {
		folder = opendir(argv[i]);
		if (!folder) {
			perror(argv[i]);
			return 1;
		}
		while ((entry = readdir(folder))) {
			if (entry->d_name[0] == '.')
				continue;
			(void)snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
			if (run_file(path))
				return 1;
			files++;
		}
		(void)closedir(folder);
	}
	printf("%d inputs\n", files);
	return files ? 0 : 1;
}
