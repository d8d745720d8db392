/* SPDX-License-Identifier: MIT */
#include "tools/exporter/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/cli/options.h"
#include "tools/exporter/http.h"
#include "tools/exporter/page.h"

/* One client. It sends one request, gets one answer, and is closed. */
struct connection {
	int fd; /* -1: free */
	uint64_t deadline_ns;
	char request[CM_HTTP_REQUEST_MAX];
	size_t received;
	bool answering;
	char head[CM_HTTP_HEAD_MAX];
	size_t head_bytes;
	char *body;
	size_t body_bytes;
	size_t sent; /* of both */
};

struct server {
	const struct cm_listeners *listeners;
	cm_page_fn page;
	void *data;
	uint64_t accepts_from_ns; /* after a lack of descriptors or memory; 0: at once */
	struct connection connection[CM_CONNECTIONS_MAX];
};

static volatile sig_atomic_t asked_to_end;

static void ask_to_end(int number)
{
	(void)number;
	asked_to_end = 1;
}

static void give_time(struct connection *connection)
{
	connection->deadline_ns = cm_monotonic_ns() + CM_CONNECTION_SECS * CM_NS_PER_S;
}

static void drop(struct connection *connection)
{
	(void)close(connection->fd);
	free(connection->body);
	memset(connection, 0, sizeof(*connection));
	connection->fd = -1;
}

static struct connection *find_free(struct server *server)
{
	size_t i;

	for (i = 0; i < CM_CONNECTIONS_MAX; i++)
		if (server->connection[i].fd < 0)
			return &server->connection[i];
	return NULL;
}

static bool has_gone_or_waits(int error)
{
	return error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

/* Clients for whom there is no place wait in the queue of the socket. So do those for whom the
 * system has no descriptor or memory: to ask again at once would take a whole processor. */
static void accept_all(struct server *server, int listener)
{
	struct connection *connection;

	while ((connection = find_free(server))) {
		const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (!has_gone_or_waits(errno))
				server->accepts_from_ns = cm_monotonic_ns() + CM_NS_PER_S;
			return;
		}
		connection->fd = fd;
		give_time(connection);
	}
}

static const char start_page[] = "<!DOCTYPE html><title>cudamem</title><h1>cudamem exporter</h1>"
				 "<p><a href=\"/metrics\">Metrics</a></p>\n";

static char *copy_text(const char *text, size_t *ret_bytes)
{
	*ret_bytes = strlen(text);
	return strdup(text);
}

static void answer(struct server *server, struct connection *connection, int status,
		   const struct cm_http_request *request)
{
	const char *type = "text/plain; charset=utf-8";

	if (status) {
		connection->body = copy_text("The exporter does not answer this request.\n",
					     &connection->body_bytes);
	} else if (request->page == CM_HTTP_METRICS) {
		type = request->openmetrics ? CM_TYPE_OPENMETRICS : CM_TYPE_TEXT;
		connection->body = server->page(server->data, request->openmetrics,
						&connection->body_bytes);
	} else if (request->page == CM_HTTP_START) {
		type = "text/html; charset=utf-8";
		connection->body = copy_text(start_page, &connection->body_bytes);
	} else {
		connection->body = copy_text("OK\n", &connection->body_bytes);
	}
	if (!status)
		status = connection->body ? 200 : 500;
	if (!connection->body)
		connection->body_bytes = 0;
	connection->head_bytes = cm_http_head(connection->head, status, type,
					      connection->body_bytes);
	if (request->head)
		connection->body_bytes = 0;
	connection->answering = true;
	give_time(connection);
}

/* False: the connection is over. */
static bool receive(struct server *server, struct connection *connection)
{
	struct cm_http_request request = {.head = false};
	ssize_t n;
	int status;

	n = recv(connection->fd, connection->request + connection->received,
		 sizeof(connection->request) - connection->received, 0);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	connection->received += (size_t)n;
	status = cm_http_parse(connection->request, connection->received, &request);
	if (status != -EAGAIN)
		answer(server, connection, status, &request);
	return true;
}

/* False: all is sent, or the client has gone. */
static bool send_more(struct connection *connection)
{
	const bool in_head = connection->sent < connection->head_bytes;
	const size_t at = in_head ? connection->sent : connection->sent - connection->head_bytes;
	const char *from = in_head ? connection->head : connection->body;
	const size_t bytes = in_head ? connection->head_bytes : connection->body_bytes;
	ssize_t n;

	if (at == bytes)
		return false;
	n = send(connection->fd, from + at, bytes - at, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	connection->sent += (size_t)n;
	return connection->sent < connection->head_bytes + connection->body_bytes;
}

/* Lets the client read everything: close(2) resets a connection that has unread input. */
static void finish(struct connection *connection)
{
	char rest[1024];

	(void)shutdown(connection->fd, SHUT_WR);
	(void)recv(connection->fd, rest, sizeof(rest), MSG_DONTWAIT);
	drop(connection);
}

static void handle(struct server *server, struct connection *connection, short events)
{
	bool more = true;

	if (cm_monotonic_ns() > connection->deadline_ns || events & (POLLERR | POLLNVAL)) {
		drop(connection);
		return;
	}
	if (events & (POLLIN | POLLHUP) && !connection->answering)
		more = receive(server, connection);
	if (more && connection->answering && events)
		more = send_more(connection);
	if (more)
		return;
	if (connection->answering)
		finish(connection);
	else
		drop(connection);
}

/* What to wait for, up to the last client: the kernel refuses more places than a process may have
 * descriptors (RLIMIT_NOFILE). New clients are accepted only while there is a place for one.
 * ret_waits: for no longer than a second, since something else ends by time. */
static size_t plan(struct server *server, struct pollfd *polled, bool *ret_waits)
{
	const bool later = cm_monotonic_ns() < server->accepts_from_ns;
	const bool room = !later && find_free(server) != NULL;
	const size_t listeners = server->listeners->count;
	size_t i, count = listeners;

	*ret_waits = later;
	for (i = 0; i < listeners; i++)
		polled[i] = (struct pollfd){.fd = room ? server->listeners->fd[i] : -1,
					    .events = POLLIN};
	for (i = 0; i < CM_CONNECTIONS_MAX; i++) {
		const struct connection *connection = &server->connection[i];

		polled[listeners + i] = (struct pollfd){
			.fd = connection->fd, .events = connection->answering ? POLLOUT : POLLIN};
		if (connection->fd < 0)
			continue;
		*ret_waits = true;
		count = listeners + i + 1;
	}
	return count;
}

static int serve(struct server *server, const sigset_t *while_waiting)
{
	const struct timespec second = {.tv_sec = 1};
	struct pollfd polled[CM_LISTENERS_MAX + CM_CONNECTIONS_MAX];
	const size_t listeners = server->listeners->count;
	bool waits;
	size_t i, count;

	while (!asked_to_end) {
		count = plan(server, polled, &waits);
		if (ppoll(polled, count, waits ? &second : NULL, while_waiting) < 0) {
			if (errno == EINTR)
				continue;
			return cm_fail(CM_EXIT_TARGET, "poll: %s", strerror(errno));
		}
		for (i = 0; i < CM_CONNECTIONS_MAX; i++)
			if (server->connection[i].fd >= 0)
				handle(server, &server->connection[i],
				       polled[listeners + i].revents);
		for (i = 0; i < listeners; i++)
			if (polled[i].revents)
				accept_all(server, server->listeners->fd[i]);
	}
	return CM_EXIT_OK;
}

int cm_serve(const struct cm_listeners *listeners, cm_page_fn page, void *data)
{
	const struct sigaction action = {.sa_handler = ask_to_end};
	struct server *server = calloc(1, sizeof(*server));
	sigset_t ends, before;
	char name[160];
	size_t i;
	int exit;

	if (!server)
		return cm_fail_memory();
	*server = (struct server){.listeners = listeners, .page = page, .data = data};
	for (i = 0; i < CM_CONNECTIONS_MAX; i++)
		server->connection[i].fd = -1;
	/* The signals are delivered only while ppoll waits, so that none is missed. */
	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGTERM);
	(void)sigaddset(&ends, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &ends, &before);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigdelset(&before, SIGTERM);
	(void)sigdelset(&before, SIGINT);
	(void)fprintf(stderr, CM_PROGRAM ": exporter: listening on %s\n",
		      cm_listen_name(listeners, name, sizeof(name)));
	exit = serve(server, &before);
	for (i = 0; i < CM_CONNECTIONS_MAX; i++)
		if (server->connection[i].fd >= 0)
			drop(&server->connection[i]);
	free(server);
	return exit;
}
