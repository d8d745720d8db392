/* SPDX-License-Identifier: MIT */
/*
 * The line in which the user types a filter, a word to search for, or the name of a file. Knows no
 * terminal.
 */
#ifndef CM_TOOLS_TOP_TYPING_H
#define CM_TOOLS_TOP_TYPING_H

#include "tools/top/keys.h"

/* Opens the line with `text` in it. `mode` is one of CM_TOP_TYPE_*. */
void cm_top_begin_typing(struct cm_top *top, enum cm_top_mode mode, const char *text);
/* What a key does while the line is open. */
enum cm_top_next cm_top_type(struct cm_top *top, int key);

#endif
