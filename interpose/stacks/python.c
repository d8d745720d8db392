/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>

#include "interpose/stacks/python_walk.h"
#include "interpose/symbols/next_symbol.h"

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
	int (*is_finalizing)(void); /* may be NULL, like `lasti` before 3.11 */
	py_frame *(*frame)(void);
	py_frame *(*back)(py_frame *frame);
	py_object *(*code)(py_frame *frame);
	int (*lasti)(py_frame *frame);
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
	int (*call_later)(int (*fn)(void *data), void *data); /* may be NULL */
	struct cm_python_reader reader;
	uintptr_t eval; /* _PyEval_EvalFrameDefault */
	uintptr_t eval_bytes;
	uintptr_t start; /* of the code that `eval` is in */
	uintptr_t bytes;
} py;

/* enum cm_python; changes from CM_PYTHON_UNCHECKED alone. */
static _Atomic uint32_t state;

#define NO_LAST INT_MIN

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

#define FIND(slot, name) (*(void **)(void *)&python->slot = find_symbol(name))

static bool find_all(struct python *python)
{
	/* First the test for any Python: most programs have none. */
	if (!FIND(this_thread, "PyGILState_GetThisThreadState"))
		return false;
	/* The public names came with 3.13. */
	if (!FIND(current, "PyThreadState_GetUnchecked"))
		(void)FIND(current, "_PyThreadState_UncheckedGet");
	if (!FIND(is_finalizing, "Py_IsFinalizing"))
		(void)FIND(is_finalizing, "_Py_IsFinalizing");
	(void)FIND(lasti, "PyFrame_GetLasti");
	(void)FIND(gc_disable, "PyGC_Disable");
	(void)FIND(gc_enable, "PyGC_Enable");
	(void)FIND(call_later, "Py_AddPendingCall");
	return python->current && FIND(frame, "PyEval_GetFrame") && FIND(back, "PyFrame_GetBack") &&
	       FIND(code, "PyFrame_GetCode") && FIND(line, "PyFrame_GetLineNumber") &&
	       FIND(attribute, "PyObject_GetAttrString") && FIND(utf8, "PyUnicode_AsUTF8") &&
	       FIND(hold, "Py_IncRef") && FIND(drop, "Py_DecRef") &&
	       FIND(fetch_error, "PyErr_Fetch") && FIND(restore_error, "PyErr_Restore") &&
	       FIND(clear_error, "PyErr_Clear");
}

/* What a walk needs. Returns how frames can be read. */
static enum cm_python find_reader(struct python *python)
{
	const char *(*version)(void);
	enum cm_python how = CM_PYTHON_UNKNOWN;

	*(void **)(void *)&version = find_symbol("Py_GetVersion");
	python->reader.code_type = (uintptr_t)find_symbol("PyCode_Type");
	python->reader.text_type = (uintptr_t)find_symbol("PyUnicode_Type");
	python->reader.byte_type = (uintptr_t)find_symbol("PyBytes_Type");
	if (version && python->is_finalizing && python->reader.code_type &&
	    python->reader.text_type && python->reader.byte_type)
		how = cm_python_layout_find(version(), find_symbol("_PyRuntime"),
					    &python->reader.layout);
	return how;
}

static int find_eval(struct dl_phdr_info *info, size_t size, void *data)
{
	struct python *python = data;
	struct cm_object object;
	ElfW(Half) i;

	(void)size;
	if (!cm_object_read(info, python->eval, &object))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const uintptr_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && python->eval - start < phdr->p_memsz) {
			python->start = start;
			python->bytes = phdr->p_memsz;
		}
	}
	if (object.dynamic)
		python->eval_bytes = cm_object_function_bytes(&object, python->eval);
	return 1;
}

void cm_python_find(void)
{
	struct python candidate = {0};
	int expected = NOT_FOUND;
	enum cm_python how;

	if (atomic_load(&found) != NOT_FOUND || !find_all(&candidate))
		return;
	how = find_reader(&candidate);
	candidate.eval = (uintptr_t)find_symbol("_PyEval_EvalFrameDefault");
	if (candidate.eval)
		(void)dl_iterate_phdr(find_eval, &candidate);
	if (!atomic_compare_exchange_strong(&found, &expected, BEING_STORED))
		return;
	py = candidate;
	atomic_store(&state, how);
	/* Release, pairs with the acquire in is_found: FOUND implies the functions. */
	atomic_store_explicit(&found, FOUND, memory_order_release);
}

static bool is_found(void)
{
	return atomic_load_explicit(&found, memory_order_acquire) == FOUND;
}

bool cm_python_is_eval(uint64_t address)
{
	/* A return address stands behind its call. */
	return is_found() && address - 1 - py.eval < py.eval_bytes;
}

bool cm_python_is_interpreter(uint64_t address)
{
	return is_found() && address - 1 - py.start < py.bytes;
}

enum cm_python cm_python_state(uint32_t *ret_minor)
{
	if (!is_found()) {
		*ret_minor = 0;
		return CM_PYTHON_NONE;
	}
	*ret_minor = py.reader.layout.minor;
	return (enum cm_python)atomic_load(&state);
}

/* PyGILState_Check is true for everybody once a program has made a second interpreter. */
static bool holds_gil(const py_state *this_thread)
{
	return this_thread && py.current() == this_thread;
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
	char text[CM_PYTHON_TEXT];
	size_t used = 0;

	/* Qualified names came with 3.11. A name gets at most half of the space. */
	if (!append_attribute(code, "co_qualname", text, sizeof(text) / 2, &used))
		(void)append_attribute(code, "co_name", text, sizeof(text) / 2, &used);
	text[used++] = CM_FRAME_TEXT_SPLIT;
	(void)append_attribute(code, "co_filename", text, sizeof(text), &used);
	text[used] = '\0';
	return add_text(text);
}

static uint32_t line_of(py_frame *frame)
{
	const int line = py.line(frame);

	return line > 0 ? (uint32_t)line : 0;
}

/* The key of a code object whose address stays unique, as it is never dropped. */
static uint64_t held_key(const py_object *code, int last)
{
	return (uint64_t)(uintptr_t)code * UINT64_C(0x9e3779b97f4a7c15) ^
	       (uint64_t)(unsigned)last * UINT64_C(0xc2b2ae3d27d4eb4f);
}

/* `keep`: remembers the frame, for which its code object is held for ever. */
static uint64_t read_frame(py_frame *frame, cm_python_text_fn *add_text, bool keep)
{
	const int last = py.lasti ? py.lasti(frame) : NO_LAST;
	py_object *code = py.code(frame);
	const uint64_t key = held_key(code, last);
	uint64_t word = keep ? cm_python_recall(key) : 0;

	if (!word) {
		word = cm_frame_python(last == NO_LAST ? 0 : line_of(frame),
				       add_description(code, add_text));
		if (keep && cm_frame_text(word) && cm_python_remember_held(key, word))
			py.hold(code);
	}
	py.drop(code);
	return last == NO_LAST ? word | cm_frame_python(line_of(frame), 0) : word;
}

static void read_frames(struct cm_python_frames *to, size_t max, cm_python_text_fn *add_text,
			bool keep)
{
	py_frame *frame = py.frame(), *back;

	to->count = 0;
	to->placed = false;
	if (frame)
		py.hold(frame);
	while (frame && to->count < max) {
		to->frame[to->count++] = read_frame(frame, add_text, keep);
		back = py.back(frame);
		py.drop(frame);
		frame = back;
	}
	to->cut = frame != NULL;
	if (frame)
		py.drop(frame);
}

/* By the C API; the thread holds the GIL. */
static void ask_interpreter(struct cm_python_frames *to, size_t max, cm_python_text_fn *add_text,
			    bool keep)
{
	py_object *type, *value, *trace;
	bool collects;

	collects = py.gc_disable && py.gc_enable && py.gc_disable();
	py.fetch_error(&type, &value, &trace);
	read_frames(to, max, add_text, keep);
	py.restore_error(type, value, trace);
	if (collects)
		(void)py.gc_enable();
}

/* A hash of all frames: FNV-1a over their words. */
static uint64_t digest(const struct cm_python_frames *frames)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) + frames->cut;
	size_t i;

	for (i = 0; i < frames->count; i++)
		hash = (hash ^ frames->frame[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static void decide(enum cm_python how)
{
	uint32_t expected = CM_PYTHON_UNCHECKED;

	(void)atomic_compare_exchange_strong(&state, &expected, how);
}

/* Whether the interpreter was asked to call confirm(). */
static atomic_bool is_asked;

/* Called by the interpreter, once, with the GIL. */
static int confirm(void *data)
{
	static struct cm_python_frames frames;
	const int saved = errno;

	cm_python_stack(&frames, CM_STACK_DEPTH_MAX, (cm_python_text_fn *)data);
	errno = saved;
	return 0;
}

/* A program that always requests memory without the GIL would never be compared otherwise. The
 * caller has no GIL: it could lose it here and wait for it under our locks. */
static void ask_for_comparison(cm_python_text_fn *add_text)
{
	if (!py.call_later || atomic_load_explicit(&is_asked, memory_order_relaxed) ||
	    atomic_exchange(&is_asked, true))
		return;
	/* It has no room for more calls. */
	if (py.call_later(confirm, (void *)add_text))
		atomic_store(&is_asked, false);
}

/* The first time with the GIL: both ways must lead to the same frames. */
static void compare(py_state *this_thread, struct cm_python_frames *to, size_t max,
		    cm_python_text_fn *add_text)
{
	const bool walked = cm_python_walk(&py.reader, (uintptr_t)this_thread, to, max, add_text);
	const uint64_t before = digest(to);

	ask_interpreter(to, max, add_text, false);
	/* No frames prove nothing. */
	if (!to->count)
		return;
	/* Equal frames: those of the walk with what it knows of their places. */
	to->placed = walked && digest(to) == before;
	decide(to->placed ? CM_PYTHON_CHECKED : CM_PYTHON_DIFFERS);
}

/* Adds a frame that stands for callers which the walk could not name. */
static void add_gone(struct cm_python_frames *to, size_t max, cm_python_text_fn *add_text)
{
	if (to->count == max)
		return;
	to->entry[to->count] = false;
	to->frame[to->count++] = cm_frame_python(0, add_text("<gone>\n"));
}

static void walk(py_state *this_thread, struct cm_python_frames *to, size_t max,
		 cm_python_text_fn *add_text)
{
	if (cm_python_walk(&py.reader, (uintptr_t)this_thread, to, max, add_text))
		return;
	/* A layout that does not fit is not used at all. */
	if (atomic_load(&state) == CM_PYTHON_UNCHECKED) {
		decide(CM_PYTHON_DIFFERS);
		to->count = 0;
	} else {
		add_gone(to, max, add_text);
	}
}

void cm_python_stack(struct cm_python_frames *to, size_t max, cm_python_text_fn *add_text)
{
	py_state *this_thread;
	uint32_t how;
	bool held;

	to->count = 0;
	to->cut = false;
	to->placed = false;
	if (!is_found())
		return;
	this_thread = py.this_thread();
	held = holds_gil(this_thread);
	how = atomic_load_explicit(&state, memory_order_relaxed);
	if (!this_thread)
		return;
	if (how == CM_PYTHON_UNCHECKED && held)
		compare(this_thread, to, max, add_text);
	else if (how != CM_PYTHON_CHECKED && how != CM_PYTHON_UNCHECKED && held)
		ask_interpreter(to, max, add_text, true);
	/* An interpreter that ends frees the thread states of other threads. */
	else if ((how == CM_PYTHON_CHECKED || how == CM_PYTHON_UNCHECKED) &&
		 (held || !py.is_finalizing())) {
		walk(this_thread, to, max, add_text);
		if (how == CM_PYTHON_UNCHECKED && !held)
			ask_for_comparison(add_text);
	}
}

void cm_python_forget(void)
{
	/* Nothing was stored: do not touch the pages of the table. */
	if (is_found()) {
		cm_python_forget_all();
		atomic_store(&is_asked, false);
	} else {
		/* A thread that was storing does not exist in the child. */
		atomic_store(&found, NOT_FOUND);
	}
}
