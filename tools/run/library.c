/* SPDX-License-Identifier: MIT */
#include "tools/run/library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Relative to the directory of this program: as installed, as laid out in a wheel whatever the
 * build was configured for, and in a build tree. */
static const char *const places[] = {
	"/" CM_LIBRARY_FROM_TOOL "/" CM_LIBRARY_NAME,
	"/../lib/cudamem/" CM_LIBRARY_NAME,
	"/../interpose/" CM_LIBRARY_NAME,
	"/" CM_LIBRARY_NAME,
};

int cm_library_find(const char *given, char ret_path[PATH_MAX])
{
	char self[PATH_MAX], place[PATH_MAX + 64], *slash;
	ssize_t n;
	size_t i;

	if (given)
		return realpath(given, ret_path) ? 0 : -errno;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	for (i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		(void)snprintf(place, sizeof(place), "%.*s%s", (int)(slash - self), self,
			       places[i]);
		if (realpath(place, ret_path) && !access(ret_path, R_OK))
			return 0;
	}
	return -ENOENT;
}
