/* SPDX-License-Identifier: MIT */
/*
 * Actions on a process. The user confirms each one twice.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/top/keys.h"

#define QUESTIONS 2

static const char *action_text(const struct cm_top_request *request)
{
	switch (request->action) {
	case CM_TOP_ACTION_TRIM:
		return "release the cached memory of";
	case CM_TOP_ACTION_RESET:
		return "set the peaks to the current values of";
	case CM_TOP_ACTION_HISTORY:
		return request->recording ? "stop recording the events of"
					  : "record the events and stacks of";
	case CM_TOP_ACTION_SNAPSHOT:
		return "save a snapshot of";
	case CM_TOP_ACTION_TERM:
		return "send SIGTERM to";
	case CM_TOP_ACTION_NONE:
		break;
	}
	return "do nothing to";
}

/* Why no action on the process is allowed; NULL: it is. */
static const char *refuse(const struct cm_top *top, const struct cm_top_row *row)
{
	if (top->replay.on)
		return "a recording: there is no action on its processes";
	if (top->readonly)
		return "--readonly: actions are switched off";
	if (!row || row->is_group)
		return "select a process first";
	if (row->life != CM_LIFE_RUNNING && row->life != CM_LIFE_STOPPED)
		return "this process has ended; its last figures can only be read";
	if (row->uid != geteuid())
		return "this process belongs to another user; only its own user may do that";
	return NULL;
}

static void suggest_file(struct cm_top *top)
{
	const time_t seconds = (time_t)(top->time_ns / UINT64_C(1000000000));
	struct tm tm = {0};
	char clock[16];

	(void)localtime_r(&seconds, &tm);
	(void)strftime(clock, sizeof(clock), "%H%M%S", &tm);
	(void)snprintf(top->typed, sizeof(top->typed), "%d-%s.cudamem", (int)top->request.pid,
		       clock);
	top->mode = CM_TOP_TYPE_FILE;
}

void cm_top_ask(struct cm_top *top, enum cm_top_action action)
{
	const struct cm_top_row *row = top->selected;
	const char *why = refuse(top, row);

	if (why) {
		cm_top_say(top, true, "%s", why);
		return;
	}
	top->request = (struct cm_top_request){.action = action,
					       .pid = row->pid,
					       .start_time = row->start_time,
					       .recording = row->recording};
	top->message[0] = '\0';
	if (action == CM_TOP_ACTION_SNAPSHOT)
		suggest_file(top);
	else
		top->mode = CM_TOP_CONFIRM;
}

void cm_top_question(const struct cm_top *top, char *text, size_t bytes)
{
	const struct cm_top_request *request = &top->request;

	(void)snprintf(text, bytes, "%s%s process %d%s%s? y or n", request->asked ? "Really " : "",
		       action_text(request), (int)request->pid, *request->file ? " as " : "",
		       request->file);
	if (!request->asked && text[0] >= 'a' && text[0] <= 'z')
		text[0] = (char)(text[0] - 'a' + 'A');
}

enum cm_top_next cm_top_answer(struct cm_top *top, int key)
{
	if (key != 'y' && key != 'Y') {
		top->mode = CM_TOP_TABLE;
		cm_top_say(top, false, "nothing was done");
		return CM_TOP_NEXT_NOTHING;
	}
	if (++top->request.asked < QUESTIONS)
		return CM_TOP_NEXT_NOTHING;
	top->mode = CM_TOP_TABLE;
	return CM_TOP_NEXT_ACT;
}
