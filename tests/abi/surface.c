/* SPDX-License-Identifier: MIT */
/* The rows of the statistics region as symbols of a library, for abidw and abidiff. */
#include "stats/layout.h"

struct cm_surface {
	struct cm_header *header;
	struct cm_option_row *option;
	struct cm_device_row *device;
	struct cm_heap_row *heap;
	struct cm_segment *segment;
	struct cm_block *block;
	struct cm_module *module;
	struct cm_event *event;
	struct cm_saved *saved;
	struct cm_site *site;
	struct cm_frame *frame;
};

extern __attribute__((visibility("default"))) struct cm_surface cm_surface;
struct cm_surface cm_surface;
