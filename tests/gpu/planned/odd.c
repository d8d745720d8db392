/* SPDX-License-Identifier: MIT */
/* odd fail|differ|skip|silent|crash: what the runner must notice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/kit/library.h"
#include "tests/gpu/kit/tell.h"

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (strcmp(how, "fail") == 0)
		tell_failure("it was planned to fail");
	if (strcmp(how, "skip") == 0)
		tell_skipped("it was planned to be left out");
	if (strcmp(how, "crash") == 0)
		abort();
	if (strcmp(how, "differ") == 0)
		printf("the same line\nthe library is %s\n",
		       library_is_here() ? "here" : "not here");
	return 0;
}
