/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/python.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "stats/layout.h"

/* Opaque types of Python.h. */
typedef void py_object;
typedef void py_frame;
typedef void py_state;

enum { NOT_FOUND, BEING_STORED, FOUND };

/* Written once, by the thread that moves `found` from NOT_FOUND; read when it is FOUND. */
static atomic_int found;
static struct python {
	py_state *(*this_thread)(void);
	py_state *(*current)(void);
	py_frame *(*frame)(void);
	py_frame *(*back)(py_frame *frame);
	py_object *(*code)(py_frame *frame);
	int (*lasti)(py_frame *frame); /* NULL before 3.11 */
	int (*line)(py_frame *frame);
	py_object *(*attribute)(py_object *object, const char *name);
	const char *(*utf8)(py_object *text);
	void (*hold)(py_object *object);
	void (*drop)(py_object *object);
	void (*fetch_error)(py_object **type, py_object **value, py_object **trace);
	void (*restore_error)(py_object *type, py_object *value, py_object *trace);
	void (*clear_error)(void);
	int (*gc_disable)(void); /* NULL before 3.10, where frames are no new objects */
	int (*gc_enable)(void);
} py;

/* Frames by code object and instruction, kept for ever: each slot holds a reference to its code
 * object, so that the address stays unique. A slot in use is never reused, since dropping a code
 * object could run code of the program. */
#define SLOTS   4096u
#define TAKEN   ((uintptr_t)1) /* a slot that is being filled */
#define NO_LAST INT_MIN

static struct slot {
	_Atomic uintptr_t code; /* stored last */
	_Atomic int last;
	_Atomic uint64_t frame; /* without its line if `last` is unknown */
} slots[SLOTS];

static void *find_function(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

#define FIND(slot, name) (*(void **)(void *)&python->slot = find_function(name))

static bool find_all(struct python *python)
{
	/* First the test for any Python: most programs have none. */
	if (!FIND(this_thread, "PyGILState_GetThisThreadState"))
		return false;
	/* The public name came with 3.13. */
	if (!FIND(current, "PyThreadState_GetUnchecked"))
		(void)FIND(current, "_PyThreadState_UncheckedGet");
	(void)FIND(lasti, "PyFrame_GetLasti");
	(void)FIND(gc_disable, "PyGC_Disable");
	(void)FIND(gc_enable, "PyGC_Enable");
	return python->current && FIND(frame, "PyEval_GetFrame") && FIND(back, "PyFrame_GetBack") &&
	       FIND(code, "PyFrame_GetCode") && FIND(line, "PyFrame_GetLineNumber") &&
	       FIND(attribute, "PyObject_GetAttrString") && FIND(utf8, "PyUnicode_AsUTF8") &&
	       FIND(hold, "Py_IncRef") && FIND(drop, "Py_DecRef") &&
	       FIND(fetch_error, "PyErr_Fetch") && FIND(restore_error, "PyErr_Restore") &&
	       FIND(clear_error, "PyErr_Clear");
}

void cm_python_find(void)
{
	struct python candidate = {0};
	int expected = NOT_FOUND;

	if (atomic_load(&found) != NOT_FOUND || !find_all(&candidate) ||
	    !atomic_compare_exchange_strong(&found, &expected, BEING_STORED))
		return;
	py = candidate;
	/* Release, pairs with the acquire in cm_python_stack: FOUND implies the functions. */
	atomic_store_explicit(&found, FOUND, memory_order_release);
}

/* PyGILState_Check is true for everybody once a program has made a second interpreter. */
static bool holds_gil(void)
{
	py_state *state = py.current();

	return state && state == py.this_thread();
}

/* Appends a text attribute without line ends, cut to size. False if there is none. */
static bool append_attribute(py_object *code, const char *name, char *text, size_t bytes,
			     size_t *used)
{
	py_object *value = py.attribute(code, name);
	const char *from = value ? py.utf8(value) : NULL;

	for (; from && *from && *used + 1 < bytes; from++)
		text[(*used)++] = *from == CM_FRAME_TEXT_SPLIT ? ' ' : *from;
	if (value)
		py.drop(value);
	if (!from)
		py.clear_error(); /* no such attribute, or a text without a UTF-8 form */
	return from != NULL;
}

static uint32_t add_description(py_object *code, cm_python_text_fn *add_text)
{
	char text[1024];
	size_t used = 0;

	/* Qualified names came with 3.11. A name gets at most half of the space. */
	if (!append_attribute(code, "co_qualname", text, sizeof(text) / 2, &used))
		(void)append_attribute(code, "co_name", text, sizeof(text) / 2, &used);
	text[used++] = CM_FRAME_TEXT_SPLIT;
	(void)append_attribute(code, "co_filename", text, sizeof(text), &used);
	text[used] = '\0';
	return add_text(text);
}

static struct slot *slot_of(py_object *code, int last)
{
	uint64_t mixed = (uintptr_t)code / 16 * UINT64_C(0x9e3779b97f4a7c15) +
			 (uint64_t)(unsigned)last * 40503u;

	return &slots[(mixed ^ mixed >> 32) & (SLOTS - 1)];
}

static void store_slot(struct slot *slot, py_object *code, int last, uint64_t frame)
{
	uintptr_t empty = 0;

	if (!atomic_compare_exchange_strong(&slot->code, &empty, TAKEN))
		return;
	py.hold(code);
	atomic_store_explicit(&slot->last, last, memory_order_relaxed);
	atomic_store_explicit(&slot->frame, frame, memory_order_relaxed);
	/* Release, pairs with the acquire in read_frame: the code implies the rest of the slot. */
	atomic_store_explicit(&slot->code, (uintptr_t)code, memory_order_release);
}

static uint32_t line_of(py_frame *frame)
{
	const int line = py.line(frame);

	return line > 0 ? (uint32_t)line : 0;
}

static uint64_t read_frame(py_frame *frame, cm_python_text_fn *add_text)
{
	const int last = py.lasti ? py.lasti(frame) : NO_LAST;
	py_object *code = py.code(frame);
	struct slot *slot = slot_of(code, last);
	uint64_t word;

	if (atomic_load_explicit(&slot->code, memory_order_acquire) == (uintptr_t)code &&
	    atomic_load_explicit(&slot->last, memory_order_relaxed) == last) {
		word = atomic_load_explicit(&slot->frame, memory_order_relaxed);
	} else {
		word = cm_frame_python(last == NO_LAST ? 0 : line_of(frame),
				       add_description(code, add_text));
		if (cm_frame_text(word))
			store_slot(slot, code, last, word);
	}
	py.drop(code);
	return last == NO_LAST ? word | cm_frame_python(line_of(frame), 0) : word;
}

static size_t read_frames(uint64_t *frames, size_t max, cm_python_text_fn *add_text, bool *ret_cut)
{
	py_frame *frame = py.frame(), *back;
	size_t count = 0;

	if (frame)
		py.hold(frame);
	while (frame && count < max) {
		frames[count++] = read_frame(frame, add_text);
		back = py.back(frame);
		py.drop(frame);
		frame = back;
	}
	*ret_cut = frame != NULL;
	if (frame)
		py.drop(frame);
	return count;
}

size_t cm_python_stack(uint64_t *frames, size_t max, cm_python_text_fn *add_text, bool *ret_cut)
{
	py_object *type, *value, *trace;
	bool collects;
	size_t count;

	*ret_cut = false;
	if (atomic_load_explicit(&found, memory_order_acquire) != FOUND || !holds_gil())
		return 0;
	collects = py.gc_disable && py.gc_enable && py.gc_disable();
	py.fetch_error(&type, &value, &trace);
	count = read_frames(frames, max, add_text, ret_cut);
	py.restore_error(type, value, trace);
	if (collects)
		(void)py.gc_enable();
	return count;
}

void cm_python_forget(void)
{
	size_t i;

	/* Nothing was stored: do not touch the pages of the table. */
	if (atomic_load(&found) != FOUND) {
		/* A thread that was storing does not exist in the child. */
		atomic_store(&found, NOT_FOUND);
		return;
	}
	for (i = 0; i < SLOTS; i++)
		atomic_store_explicit(&slots[i].code, 0, memory_order_relaxed);
}
