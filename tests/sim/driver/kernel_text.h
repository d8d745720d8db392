/* SPDX-License-Identifier: MIT */
/*
 * The text that describes a module; README.md has its grammar.
 */
#ifndef CM_SIM_KERNEL_TEXT_H
#define CM_SIM_KERNEL_TEXT_H

#include "kernel.h"

/* The first word of the text. */
#define SIM_MODULE_TEXT "cudasim-module"

bool sim_kernel_text_is(const void *image);

/* What a line of the text declares. */
struct sim_kernel_text {
	const char *at; /* the rest of the text */
	unsigned line;
};

enum sim_declared { SIM_DECLARES_END, SIM_DECLARES_KERNEL, SIM_DECLARES_GLOBAL, SIM_TEXT_BAD };

/*
 * Reads on to the next kernel, which goes to ret_kernel, or variable, of which the name goes to
 * ret_kernel->name and the size to ret_bytes.
 */
enum sim_declared sim_kernel_text_next(struct sim_kernel_text *text, struct sim_kernel *ret_kernel,
				       uint64_t *ret_bytes);

#endif
