/* SPDX-License-Identifier: MIT */
/*
 * Whose code a frame of a stack is: the program's own, a library's, or that of the layers below,
 * which are on every stack and say nothing (code_layers.def). Pure.
 */
#ifndef CM_STATS_CODE_LAYERS_H
#define CM_STATS_CODE_LAYERS_H

#include <stddef.h>

enum cm_layer {
	CM_LAYER_PROGRAM,
	CM_LAYER_LIBRARY,
	CM_LAYER_PLUMBING,
};

/*
 * `object` is the path of the object, `function` a name as in the symbol table or demangled; either
 * may be "". An extension module is its package's, as the package's Python files are. *ret_name,
 * unless NULL: what the layer is called, a constant text, or NULL for the program's own.
 */
enum cm_layer cm_layer_native(const char *object, const char *function, const char **ret_name);
/* `file` is the path of the source. */
enum cm_layer cm_layer_python(const char *file, const char **ret_name);

#define CM_LAYER_NAME_BYTES 512

/*
 * Copies a demangled name without its return type, parameters and template arguments:
 * "void sort<int*>(int*, int*)" becomes "sort". What is no such name, or does not fit, is copied as
 * far as it fits. `bytes` is at least 1.
 */
void cm_layer_short_name(char *to, size_t bytes, const char *function);

#endif
