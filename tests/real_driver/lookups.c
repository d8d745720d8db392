/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver library for every name, by dlsym and by cuGetProcAddress, and prints what each
 * question was answered with:
 *
 *	dlsym NAME OBJECT OFFSET
 *	getproc NAME VERSION FLAGS RESULT STATUS OBJECT OFFSET
 *
 * OBJECT is the file name of the library that the address lies in and OFFSET where in it, so that
 * two processes can be compared. Names are read from the standard input, one a line. No CUDA header
 * is needed and none is used: the driver is opened as a program would open it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int get_proc_fn(const char *symbol, void **function, int version, unsigned long long flags,
			int *status);

static const int versions[] = {2000,  3020,  4000,  6050,  7000,  9000,  10000, 10020,
			       11000, 11010, 11030, 11040, 11080, 12000, 12020, 12030,
			       12040, 12050, 12080, 13000, 13020, 13050};

static void print_place(const void *address)
{
	Dl_info info;
	const char *slash;

	if (!address || !dladdr(address, &info)) {
		puts(" - 0");
		return;
	}
	slash = strrchr(info.dli_fname, '/');
	printf(" %s %zx\n", slash ? slash + 1 : info.dli_fname,
	       (size_t)((const char *)address - (const char *)info.dli_fbase));
}

/* The name under which cuGetProcAddress knows a symbol: without what tells its forms apart. */
static void strip(char *name)
{
	static const char *const suffixes[] = {"_ptsz", "_ptds", "_v2", "_v3", "_v4", "_v5"};
	size_t i, length, rest;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		length = strlen(name);
		rest = strlen(suffixes[i]);
		if (length > rest && !strcmp(name + length - rest, suffixes[i])) {
			name[length - rest] = 0;
			i = (size_t)-1; /* there may be two */
		}
	}
}

static void look_up(get_proc_fn *get_proc, const char *base)
{
	unsigned long long flags;
	size_t i;
	void *address;
	int status, res;

	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		for (flags = 0; flags <= 2; flags++) {
			address = NULL;
			status = -1;
			res = get_proc(base, &address, versions[i], flags, &status);
			printf("getproc %s %d %llu %d %d", base, versions[i], flags, res, status);
			print_place(address);
		}
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	get_proc_fn *get_proc = NULL;
	char name[256];
	void *address;

	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return EXIT_FAILURE;
	}
	address = dlsym(driver, "cuGetProcAddress_v2");
	memcpy(&get_proc, &address, sizeof(get_proc));
	while (fgets(name, sizeof(name), stdin)) {
		name[strcspn(name, "\n")] = 0;
		printf("dlsym %s", name);
		print_place(dlsym(driver, name));
		strip(name);
		if (get_proc)
			look_up(get_proc, name);
	}
	return EXIT_SUCCESS;
}
