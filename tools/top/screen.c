/* SPDX-License-Identifier: MIT */
#include "tools/top/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The macros of ncurses without those that hide common names. */
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/top/commands.h"
#include "tools/top/keys.h"
#include "tools/top/replay.h"
#include "tools/top/view.h"

#define WHEEL_LINES 3
#define CATCH_UP_NS (CM_NS_PER_S / 20) /* how long samples of a fast recording are taken in a row */
#define ESCAPE_MS   25                 /* how long a key that begins with Esc may take */

/* Signals are delivered only while the screen waits, so none finds a frame half drawn. */
static volatile sig_atomic_t ended, continued;

struct screen {
	struct cm_top *top;
	struct cm_watch_source *source;
	struct cm_commands commands;
	struct cm_canvas canvas;
	struct cm_cell *drawn; /* what the terminal shows; NULL: nothing of ours */
	SCREEN *terminal;
	sigset_t waiting; /* the mask while waiting */
	bool colored;
	uint64_t next_ns; /* CLOCK_MONOTONIC of the next sample */
};

static void note_end(int number)
{
	ended = number;
}

static void note_continued(int number)
{
	(void)number;
	continued = 1;
}

/* Called before ncurses starts, which does not replace handlers that are set. */
static void catch_signals(struct screen *screen)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = note_end};
	sigset_t blocked;
	size_t i;

	(void)sigemptyset(&blocked);
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		(void)sigaction(ends[i], &action, NULL);
		(void)sigaddset(&blocked, ends[i]);
	}
	action.sa_handler = note_continued;
	(void)sigaction(SIGCONT, &action, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigaddset(&blocked, SIGCONT);
	(void)sigaddset(&blocked, SIGWINCH);
	(void)sigaddset(&blocked, SIGTSTP);
	(void)sigprocmask(SIG_BLOCK, &blocked, &screen->waiting);
}

static void start_colors(struct screen *screen, bool wanted)
{
	static const short colors[CM_COLOR_COUNT] = {
		[CM_COLOR_ALLOCATED] = COLOR_GREEN,    [CM_COLOR_PENDING] = COLOR_YELLOW,
		[CM_COLOR_FRAGMENTED] = COLOR_MAGENTA, [CM_COLOR_RELEASABLE] = COLOR_CYAN,
		[CM_COLOR_OTHERS] = COLOR_BLUE,        [CM_COLOR_ALARM] = COLOR_RED,
	};
	int i;

	screen->colored = wanted && has_colors() && start_color() == OK;
	if (!screen->colored)
		return;
	(void)use_default_colors();
	for (i = 1; i < CM_COLOR_COUNT; i++)
		(void)init_pair((short)i, colors[i], -1);
}

/* What terminals send besides what TERM says of them: TERM is often that of another terminal, as
 * xterm's is inside tmux. */
static void define_keys(void)
{
	static const struct {
		const char *sent;
		int code;
	} keys[] = {
		{"\033[A", KEY_UP},    {"\033[B", KEY_DOWN},   {"\033[C", KEY_RIGHT},
		{"\033[D", KEY_LEFT},  {"\033[H", KEY_HOME},   {"\033[F", KEY_END},
		{"\033[1~", KEY_HOME}, {"\033[4~", KEY_END},   {"\033[7~", KEY_HOME},
		{"\033[8~", KEY_END},  {"\033[5~", KEY_PPAGE}, {"\033[6~", KEY_NPAGE},
		{"\033[3~", KEY_DC},   {"\033OA", KEY_UP},     {"\033OB", KEY_DOWN},
		{"\033OC", KEY_RIGHT}, {"\033OD", KEY_LEFT},   {"\033OH", KEY_HOME},
		{"\033OF", KEY_END},   {"\033OM", KEY_ENTER},
	};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!key_defined(keys[i].sent))
			(void)define_key(keys[i].sent, keys[i].code);
}

static int open_terminal(struct screen *screen, const struct cm_options *options)
{
	const char *type = getenv("TERM");

	screen->terminal = newterm(NULL, stdout, stdin);
	if (screen->terminal && !tigetstr("cup")) { /* it cannot place the cursor, as "dumb" */
		(void)endwin();
		delscreen(screen->terminal);
		screen->terminal = NULL;
	}
	if (!screen->terminal)
		return cm_fail(CM_EXIT_USAGE,
			       "the terminal type '%s' (TERM) is unknown or cannot be drawn on; -b "
			       "prints frames as text",
			       type ? type : "");
	(void)cbreak();
	(void)noecho();
	(void)nonl();
	(void)keypad(stdscr, TRUE);
	(void)nodelay(stdscr, TRUE);
	(void)set_escdelay(ESCAPE_MS);
	define_keys();
	(void)curs_set(0);
	if (!options->no_mouse) {
		(void)mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
		(void)mouseinterval(0);
	}
	start_colors(screen, options->color);
	return CM_EXIT_OK;
}

static void draw_cell(const struct screen *screen, int y, int x, const struct cm_cell *cell)
{
	const wchar_t text[2] = {cell->ch, L'\0'};
	attr_t attributes = A_NORMAL;
	cchar_t character;

	if (cell->attr & CM_ATTR_BOLD)
		attributes |= A_BOLD;
	if (cell->attr & CM_ATTR_DIM)
		attributes |= A_DIM;
	if (cell->attr & CM_ATTR_REVERSE)
		attributes |= A_REVERSE;
	(void)setcchar(&character, text, attributes, screen->colored ? cell->color : 0, NULL);
	(void)mvadd_wch(y, x, &character);
}

/* Draws a frame: the cells that differ from what the terminal shows. */
static void draw(struct screen *screen)
{
	const struct cm_canvas *canvas = &screen->canvas;
	int y, x;

	cm_view_draw(screen->top, &screen->canvas);
	for (y = 0; y < canvas->height; y++) {
		for (x = 0; x < canvas->width; x++) {
			const struct cm_cell *cell = cm_canvas_cell(canvas, y, x);
			struct cm_cell *old = &screen->drawn[y * canvas->width + x];

			if (cell->ch == old->ch && cell->color == old->color &&
			    cell->attr == old->attr)
				continue;
			*old = *cell;
			if (cell->ch)
				draw_cell(screen, y, x, cell);
		}
	}
	(void)refresh();
}

/* Takes the size of the terminal. 0 or -ENOMEM. */
static int resize(struct screen *screen)
{
	int height, width;

	getmaxyx(stdscr, height, width);
	if (cm_canvas_resize(&screen->canvas, height, width))
		return -ENOMEM;
	screen->canvas.ascii = screen->top->graph == CM_TOP_GRAPH_ASCII;
	free(screen->drawn);
	screen->drawn = calloc((size_t)screen->canvas.height * (size_t)screen->canvas.width + 1,
			       sizeof(*screen->drawn));
	(void)erase();
	return screen->drawn ? 0 : -ENOMEM;
}

/* Takes one sample. 1: the recording is at its end. */
static int take_one(struct screen *screen)
{
	struct cm_watch_sample sample;
	int err;

	screen->source->want_survey = cm_top_wants_survey(screen->top);
	screen->source->speed = screen->top->replay.speed;
	err = screen->source->take(screen->source, &sample);
	screen->top->replay.ended = err == -ENODATA;
	screen->top->replay.last_ns = screen->source->last_ns;
	if (err)
		return err == -ENODATA ? 1 : err;
	return cm_top_update(screen->top, &sample);
}

/* Takes the next sample; of a recording that is played fast, all that are due. */
static int take_sample(struct screen *screen)
{
	const uint64_t begun = cm_monotonic_ns();
	uint64_t now;
	int err;

	do {
		err = take_one(screen);
		now = cm_monotonic_ns();
	} while (!err && screen->source->due_ns && screen->source->due_ns <= now &&
		 now - begun < CATCH_UP_NS);
	screen->next_ns = screen->source->due_ns ? screen->source->due_ns
						 : now + screen->top->interval_ns;
	return err < 0 ? err : 0;
}

/* Goes to another time of the recording. */
static int seek(struct screen *screen)
{
	struct cm_top *top = screen->top;
	const bool paused = top->paused;
	int err;

	err = cm_top_seek(top, screen->source, top->replay.seek_ns);
	top->paused = false;
	if (!err)
		err = take_one(screen);
	top->paused = paused;
	screen->next_ns = screen->source->due_ns;
	return err < 0 ? err : 0;
}

/* Is this a recording that is paused? A paused recording takes no samples. */
static bool stands_still(const struct screen *screen)
{
	return screen->top->paused && screen->top->replay.on;
}

static int translate(wint_t key, bool is_code)
{
	static const struct {
		wint_t code;
		int key;
	} codes[] = {
		{KEY_UP, CM_KEY_UP},         {KEY_DOWN, CM_KEY_DOWN},
		{KEY_LEFT, CM_KEY_LEFT},     {KEY_RIGHT, CM_KEY_RIGHT},
		{KEY_PPAGE, CM_KEY_PAGE_UP}, {KEY_NPAGE, CM_KEY_PAGE_DOWN},
		{KEY_HOME, CM_KEY_HOME},     {KEY_END, CM_KEY_END},
		{KEY_ENTER, CM_KEY_ENTER},   {KEY_BACKSPACE, CM_KEY_ERASE},
		{KEY_DC, CM_KEY_ERASE},      {KEY_F(1), CM_KEY_HELP},
		{KEY_F(2), CM_KEY_COLUMNS},  {KEY_F(10), CM_KEY_QUIT},
	};
	size_t i;

	if (!is_code)
		return key == '\r' ? CM_KEY_ENTER : key == '\b' ? CM_KEY_ERASE : (int)key;
	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].code == key)
			return codes[i].key;
	return CM_KEY_OTHER;
}

static enum cm_top_next obey_mouse(struct screen *screen)
{
	MEVENT event;
	int i;

	if (getmouse(&event) != OK)
		return CM_TOP_NEXT_NOTHING;
	if (event.bstate & BUTTON1_PRESSED)
		return cm_top_click(screen->top, &screen->canvas, event.y, event.x);
	for (i = 0; i < WHEEL_LINES; i++)
		(void)cm_top_key(screen->top,
				 event.bstate & BUTTON4_PRESSED ? CM_KEY_UP : CM_KEY_DOWN);
	return CM_TOP_NEXT_NOTHING;
}

/* Does what the model asks for. 1: the user quits; or a negative errno. */
static int do_next(struct screen *screen, enum cm_top_next next)
{
	switch (next) {
	case CM_TOP_NEXT_QUIT:
		return 1;
	case CM_TOP_NEXT_REDRAW:
		(void)clearok(curscr, TRUE);
		return resize(screen);
	case CM_TOP_NEXT_ACT:
		cm_commands_act(&screen->commands, screen->top);
		return 0;
	case CM_TOP_NEXT_TAKE:
		return take_sample(screen);
	case CM_TOP_NEXT_SEEK:
		return seek(screen);
	case CM_TOP_NEXT_NOTHING:
		break;
	}
	return 0;
}

/* After Esc: reads the rest of a key that ncurses does not know, which is neither Esc nor the
 * letters that follow it. False: Esc alone was typed. */
static bool skip_unknown_key(void)
{
	wint_t key;
	int result = get_wch(&key);

	if (result != OK || (key != '[' && key != 'O')) {
		if (result != ERR)
			(void)(result == OK ? unget_wch((wchar_t)key) : ungetch((int)key));
		return false;
	}
	/* Digits and semicolons, up to the character that ends it. */
	while (get_wch(&key) == OK && key >= ' ' && key < '@')
		;
	return true;
}

/* Handles all keys that were typed. 1: the user quits, or the input has ended; or a negative
 * errno. */
static int obey_keys(struct screen *screen)
{
	int result, left, err = 0;
	bool any = false;
	wint_t key;

	while (!err && (result = get_wch(&key)) != ERR) {
		any = true;
		if (result == KEY_CODE_YES && key == KEY_RESIZE)
			err = resize(screen);
		else if (result == KEY_CODE_YES && key == KEY_MOUSE)
			err = do_next(screen, obey_mouse(screen));
		else if (result == OK && key == CM_KEY_ESCAPE && skip_unknown_key())
			continue;
		else
			err = do_next(screen, cm_top_key(screen->top,
							 translate(key, result == KEY_CODE_YES)));
	}
	/* If the descriptor is readable but has no data, the input has ended. */
	if (!err && !any && !ioctl(STDIN_FILENO, FIONREAD, &left) && !left)
		return 1;
	return err;
}

/* After SIGCONT: a shell may have set the terminal up for itself. */
static int come_back(struct screen *screen)
{
	continued = 0;
	(void)reset_prog_mode();
	(void)clearok(curscr, TRUE);
	return resize(screen);
}

/* Waits for a key, a command that prints, a signal, or the next sample. 1: end. */
static int wait_for_input(struct screen *screen)
{
	struct pollfd files[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
				  {.fd = cm_commands_fd(&screen->commands), .events = POLLIN}};
	const uint64_t now = cm_monotonic_ns();
	const uint64_t left = screen->next_ns > now ? screen->next_ns - now : 0;
	const struct timespec timeout = {(time_t)(left / CM_NS_PER_S), (long)(left % CM_NS_PER_S)};
	int n;

	n = ppoll(files, 2, &timeout, &screen->waiting);
	if (ended)
		return 1;
	if (n < 0)
		return errno == EINTR ? (continued ? come_back(screen) : obey_keys(screen) < 0)
				      : -errno;
	if (files[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		return 1;
	if (files[1].revents)
		cm_commands_read(&screen->commands, screen->top);
	return files[0].revents ? obey_keys(screen) : 0;
}

static int loop(struct screen *screen)
{
	int err = resize(screen);

	if (!err && screen->top->replay.on)
		err = cm_top_lead_in(screen->top, screen->source);
	while (!err) {
		const uint64_t now = cm_monotonic_ns(), interval = screen->top->interval_ns;

		if (!stands_still(screen) && now >= screen->next_ns)
			err = take_sample(screen);
		else if (stands_still(screen) ||
			 (screen->next_ns - now > interval && !screen->source->due_ns))
			screen->next_ns = now + interval; /* it was made shorter */
		if (err)
			break;
		cm_commands_fetch(&screen->commands, screen->top);
		draw(screen);
		err = wait_for_input(screen);
	}
	return err < 0 ? err : 0;
}

/* Dies of the signal that asked for the end, so that a shell sees that. */
static int end_as_signalled(const struct screen *screen, int err)
{
	if (ended) {
		(void)signal(ended, SIG_DFL);
		(void)sigprocmask(SIG_SETMASK, &screen->waiting, NULL);
		(void)raise(ended);
	}
	return err ? cm_watch_fail(screen->source, err) : CM_EXIT_OK;
}

int cm_top_screen(const struct cm_options *options, struct cm_top *top,
		  struct cm_watch_source *source)
{
	struct screen *screen = calloc(1, sizeof(*screen));
	int exit, err;

	if (!screen)
		return cm_fail_memory();
	screen->top = top;
	screen->source = source;
	screen->commands.options = options;
	catch_signals(screen);
	exit = open_terminal(screen, options);
	if (!exit) {
		err = loop(screen);
		(void)endwin();
		delscreen(screen->terminal);
		exit = end_as_signalled(screen, err);
	}
	cm_commands_stop(&screen->commands);
	cm_canvas_fini(&screen->canvas);
	free(screen->drawn);
	free(screen);
	return exit;
}
