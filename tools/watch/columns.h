/* SPDX-License-Identifier: MIT */
/*
 * The values of the columns that `ls` and `top` share (tools/output/columns.def), of one sample.
 */
#ifndef CM_TOOLS_WATCH_COLUMNS_H
#define CM_TOOLS_WATCH_COLUMNS_H

#include "tools/output/column_set.h"
#include "tools/output/text.h"
#include "tools/watch/source.h"

enum cm_watch_column {
#define CM_COLUMN(ID, name, key, usual, ALIGN, help)                     CM_WATCH_COLUMN_##ID,
#define CM_RENAMED(ID, name, key, usual, ALIGN, help, old_name, old_key) CM_WATCH_COLUMN_##ID,
#include "tools/output/columns.def"
	CM_WATCH_COLUMN_COUNT
};

/* The rows of columns.def, in their order, as initialisers of struct cm_column. */
#define CM_WATCH_COLUMN_ROW(ID, name, key, usual, ALIGN, help, old_name, old_key) \
	{name, key, usual, CM_ALIGN_##ALIGN, 0, help, old_name, old_key},

/* The texts of a device that values point at. */
struct cm_watch_texts {
	char uuid[CM_UUID_TEXT];
	char model[64];
	char pci[CM_PCI_BYTES];
};

/* Fills the columns that need no device; the values point into the sample. */
void cm_watch_fill_process(const struct cm_watched *watched, struct cm_value *values);
/* Fills the columns of one device of the process; the values point into *texts. */
void cm_watch_fill_device(const struct cm_watched *watched, const struct cm_device_view *view,
			  struct cm_watch_texts *texts, struct cm_value *values);

#endif
