/* SPDX-License-Identifier: MIT */
/*
 * What keys and clicks do to the model. Knows no terminal.
 */
#ifndef CM_TOOLS_TOP_KEYS_H
#define CM_TOOLS_TOP_KEYS_H

#include "tools/top/canvas.h"
#include "tools/top/model.h"

/* A key is a character, or one of these. */
enum cm_key {
	CM_KEY_ENTER = '\n',
	CM_KEY_ESCAPE = 27,
	CM_KEY_ERASE = 127,
	CM_KEY_UP = 0x110000, /* beyond all characters */
	CM_KEY_DOWN,
	CM_KEY_LEFT,
	CM_KEY_RIGHT,
	CM_KEY_PAGE_UP,
	CM_KEY_PAGE_DOWN,
	CM_KEY_HOME,
	CM_KEY_END,
	CM_KEY_HELP,    /* F1 */
	CM_KEY_COLUMNS, /* F2 */
	CM_KEY_QUIT,    /* F10 */
	CM_KEY_OTHER,   /* does nothing */
	CM_KEY_COUNT
};

/* What the caller has to do. */
enum cm_top_next {
	CM_TOP_NEXT_NOTHING,
	CM_TOP_NEXT_QUIT,
	CM_TOP_NEXT_REDRAW, /* the screen from scratch */
	CM_TOP_NEXT_ACT,    /* `request` is confirmed */
	CM_TOP_NEXT_TAKE,   /* a sample at once */
	CM_TOP_NEXT_SEEK,   /* another time of the recording, `replay.seek_ns` from here */
};

enum cm_top_next cm_top_key(struct cm_top *top, int key);
/* A click on the canvas that cm_view_draw has filled. */
enum cm_top_next cm_top_click(struct cm_top *top, const struct cm_canvas *canvas, int y, int x);

/* Begins to ask about an action on the selected process, or says why it cannot be done. */
void cm_top_ask(struct cm_top *top, enum cm_top_action action);
/* Takes the answer: asks the next question, lets the action begin, or drops it. */
enum cm_top_next cm_top_answer(struct cm_top *top, int key);
/* The question that is open. */
void cm_top_question(const struct cm_top *top, char *text, size_t bytes);
/* Appends the columns of -o +LIST to those on the screen. */
void cm_top_add_columns(struct cm_top *top);

#endif
