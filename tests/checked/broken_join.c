/* SPDX-License-Identifier: MIT */
/* A stream of another device that takes part in a capture is not seen. */
#include "interpose/driver/capture.h"

void __wrap_cm_capture_note_work(CUstream stream, bool per_thread, uint64_t devices);

void __wrap_cm_capture_note_work(CUstream stream, bool per_thread, uint64_t devices)
{
	(void)stream;
	(void)per_thread;
	(void)devices;
}
