/* SPDX-License-Identifier: MIT */
/* Succeeds where the library is not loaded into it; it would be, but for what it is started as. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	if (geteuid() == getuid())
		return 2; /* the folder's file system knows no other users' rights */
	return dlsym(RTLD_DEFAULT, "cudamem_memory_allocated") != NULL;
}
