/* SPDX-License-Identifier: MIT */
/*
 * How UUIDs and times are printed.
 */
#ifndef CM_TOOLS_OUTPUT_TEXT_H
#define CM_TOOLS_OUTPUT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#define CM_UUID_TEXT 48
#define CM_TIME_TEXT 40

/* Whether a device of this model is a part of a card: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
bool cm_is_mig(const char *model);
/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or MIG-, as nvidia-smi prints it. */
char *cm_uuid_format(const uint8_t uuid[16], const char *model, char text[CM_UUID_TEXT]);

struct cm_time_text {
	char text[CM_TIME_TEXT];
};

/* Nanoseconds since 1970 as "2026-03-04T13:22:07.104Z". */
struct cm_time_text cm_time_format(uint64_t ns);

/* CLOCK_REALTIME in nanoseconds. */
uint64_t cm_time_now(void);

#endif
