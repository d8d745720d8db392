/* SPDX-License-Identifier: MIT */
#include "tools/output/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stats/tick.h"

#define NS_PER_MS UINT64_C(1000000)

bool cm_is_mig(const char *model)
{
	return strstr(model, " MIG ") != NULL;
}

char *cm_uuid_format(const uint8_t uuid[16], const char *model, char text[CM_UUID_TEXT])
{
	size_t at, i;

	at = (size_t)snprintf(text, CM_UUID_TEXT, cm_is_mig(model) ? "MIG-" : "GPU-");
	for (i = 0; i < 16; i++)
		at += (size_t)snprintf(text + at, CM_UUID_TEXT - at, "%s%02x",
				       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return text;
}

struct cm_time_text cm_time_format(uint64_t ns)
{
	const time_t seconds = (time_t)(ns / CM_NS_PER_S);
	struct cm_time_text to;
	struct tm tm = {0};
	size_t n;

	(void)gmtime_r(&seconds, &tm);
	n = strftime(to.text, CM_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(to.text + n, CM_TIME_TEXT - n, ".%03uZ",
		       (unsigned)(ns % CM_NS_PER_S / NS_PER_MS));
	return to;
}

uint64_t cm_time_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * CM_NS_PER_S + (uint64_t)now.tv_nsec;
}
