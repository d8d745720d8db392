/* SPDX-License-Identifier: MIT */
#include "tools/top/commands.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/start_time.h"
#include "stats/tick.h"

#define SELF     "/proc/self/exe"
#define ARGS_MAX 16
#define FRESH_NS (2 * CM_NS_PER_S) /* `show` takes 5 ms: a quarter of a percent of a core */

/* The words of a command. */
struct words {
	const char *word[ARGS_MAX];
	size_t count;
	char pid[16];
};

static void add_word(struct words *words, const char *word)
{
	if (words->count + 1 < ARGS_MAX)
		words->word[words->count++] = word;
}

/* Names the process as the screen found it. */
static void add_target(const struct cm_commands *commands, struct words *words, pid_t pid)
{
	(void)snprintf(words->pid, sizeof(words->pid), "%d", (int)pid);
	if (commands->options->region) {
		add_word(words, "--region");
		add_word(words, commands->options->region);
		return;
	}
	if (commands->options->dir) {
		add_word(words, "--dir");
		add_word(words, commands->options->dir);
	}
	add_word(words, words->pid);
}

static int run_command(struct cm_commands *commands, struct words *words, int what)
{
	const int err = cm_child_start(&commands->child, SELF, words->word);

	if (!err)
		commands->running = what;
	return err;
}

/* Signals the process that the user was asked about: by now its pid may belong to another one. */
static int terminate(const struct cm_top_request *request)
{
	const int fd = (int)syscall(SYS_pidfd_open, request->pid, 0);
	uint64_t start;
	int err = 0;

	if (fd < 0)
		return -errno;
	err = cm_process_start_time((uint32_t)request->pid, &start);
	if (!err && start != request->start_time)
		err = -ESRCH;
	if (!err && syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0))
		err = -errno;
	(void)close(fd);
	return err;
}

static void fill_words(const struct cm_commands *commands, const struct cm_top_request *request,
		       struct words *words)
{
	add_word(words, CM_PROGRAM);
	switch (request->action) {
	case CM_TOP_ACTION_TRIM:
		add_word(words, "trim");
		break;
	case CM_TOP_ACTION_RESET:
		add_word(words, "reset");
		break;
	case CM_TOP_ACTION_HISTORY:
		add_word(words, "history");
		add_word(words, request->recording ? "stop" : "start");
		break;
	case CM_TOP_ACTION_SNAPSHOT:
		add_word(words, "snapshot");
		add_word(words, "--out");
		add_word(words, request->file);
		break;
	case CM_TOP_ACTION_TERM:
	case CM_TOP_ACTION_NONE:
		break;
	}
	add_target(commands, words, request->pid);
}

void cm_commands_act(struct cm_commands *commands, struct cm_top *top)
{
	const struct cm_top_request *request = &top->request;
	struct words words = {0};
	int err;

	if (request->action == CM_TOP_ACTION_TERM) {
		err = terminate(request);
		if (err)
			cm_top_say(top, true, "process %d: %s", (int)request->pid, strerror(-err));
		else
			cm_top_say(top, false, "sent SIGTERM to process %d", (int)request->pid);
		return;
	}
	fill_words(commands, request, &words);
	err = run_command(commands, &words, CM_COMMANDS_ACT);
	if (err)
		cm_top_say(top, true, "cannot start %s: %s", words.word[1], strerror(-err));
	else
		cm_top_say(top, false, "%s %d ...", words.word[1], (int)request->pid);
}

static bool is_open(const struct cm_top *top)
{
	return top->mode == CM_TOP_DETAIL && !top->replay.on && top->selected &&
	       !top->selected->is_group && !top->selected->error;
}

static void forget_details(struct cm_commands *commands)
{
	free(commands->shown);
	free(commands->reported);
	commands->shown = commands->reported = NULL;
}

void cm_commands_fetch(struct cm_commands *commands, struct cm_top *top)
{
	struct words words = {0};
	bool due;

	if (commands->running != CM_COMMANDS_IDLE || !is_open(top))
		return;
	if (commands->pid != top->selected->pid || top->wants_detail) {
		forget_details(commands);
		commands->pid = top->selected->pid;
		commands->report_due = top->selected->recording;
		top->wants_detail = false;
		commands->shown_ns = 0;
	}
	due = !commands->shown_ns ||
	      (!top->paused && cm_monotonic_ns() - commands->shown_ns >= FRESH_NS);
	if (!due && !commands->report_due)
		return;
	add_word(&words, CM_PROGRAM);
	add_word(&words, due ? "show" : "report");
	if (due) {
		add_word(&words, "--map");
		if (top->graph == CM_TOP_GRAPH_ASCII)
			add_word(&words, "--ascii");
	}
	add_target(commands, &words, commands->pid);
	if (run_command(commands, &words, due ? CM_COMMANDS_SHOW : CM_COMMANDS_REPORT))
		return;
	if (due)
		commands->shown_ns = cm_monotonic_ns();
	else
		commands->report_due = false;
}

/* The line of what a command printed that answers the user: the first, which of `history` has no
 * more than the process, so there the next. A complaint without the program's name, as the screen
 * is narrow; advice may follow it. */
static void say_answer(struct cm_top *top, const struct cm_child *child)
{
	static const char program[] = CM_PROGRAM ": ";
	const bool good = WIFEXITED(child->status) && !WEXITSTATUS(child->status);
	const char *line = child->text, *next;

	if (!line) {
		cm_top_say(top, !good, "%s", good ? "done" : "it did not work");
		return;
	}
	next = strchr(line, '\n');
	if (good && top->request.action == CM_TOP_ACTION_HISTORY && next && next[1])
		line = next + 1;
	if (!strncmp(line, program, strlen(program)))
		line += strlen(program);
	line += strspn(line, " ");
	cm_top_say(top, !good, "%.*s", (int)strcspn(line, "\n"), line);
}

static char *join(const char *first, const char *second)
{
	const size_t length = (first ? strlen(first) : 0) + (second ? strlen(second) : 0);
	char *text = malloc(length + 2);

	if (text)
		(void)snprintf(text, length + 2, "%s%s%s", first ? first : "", second ? "\n" : "",
			       second ? second : "");
	return text;
}

void cm_commands_read(struct cm_commands *commands, struct cm_top *top)
{
	const int running = commands->running;
	char **to = running == CM_COMMANDS_REPORT ? &commands->reported : &commands->shown;

	if (!cm_child_read(&commands->child))
		return;
	commands->running = CM_COMMANDS_IDLE;
	if (running == CM_COMMANDS_ACT) {
		say_answer(top, &commands->child);
		cm_child_stop(&commands->child);
		return;
	}
	free(*to);
	*to = cm_child_take_text(&commands->child);
	if (is_open(top) && commands->pid == top->selected->pid)
		cm_top_set_detail(top, join(commands->shown, commands->reported));
}

int cm_commands_fd(const struct cm_commands *commands)
{
	return commands->child.pid ? commands->child.fd : -1;
}

void cm_commands_stop(struct cm_commands *commands)
{
	cm_child_stop(&commands->child);
	forget_details(commands);
}
