/* SPDX-License-Identifier: MIT */
#include "tools/exporter/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "stats/units.h"
#include "tools/cli/exits.h"

#define BACKLOG      16
#define INHERITED_AT 3 /* sd_listen_fds(3): the first of systemd's sockets */
#define UNIX_WORD    "unix:"

/* Any address that there is a socket for. */
struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} socket;
	socklen_t bytes;
};

static bool is_loopback(const struct address *address)
{
	if (address->socket.any.sa_family == AF_INET)
		return ntohl(address->socket.v4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&address->socket.v6.sin6_addr);
}

static int parse_inet(const char *text, struct address *ret_address)
{
	const char *colon = strrchr(text, ':');
	struct address address = {.bytes = 0};
	char host[INET6_ADDRSTRLEN + 2] = "127.0.0.1";
	size_t length = colon ? (size_t)(colon - text) : 0;
	uint64_t port;

	if (cm_number_parse(colon ? colon + 1 : text, UINT16_MAX, &port) || length >= sizeof(host))
		return -EINVAL;
	if (length) {
		memcpy(host, text, length);
		host[length] = '\0';
	}
	if (host[0] == '[' && length && host[length - 1] == ']') {
		host[length - 1] = '\0';
		address.socket.v6.sin6_family = AF_INET6;
		address.socket.v6.sin6_port = htons((uint16_t)port);
		address.bytes = sizeof(address.socket.v6);
		if (inet_pton(AF_INET6, host + 1, &address.socket.v6.sin6_addr) != 1)
			return -EINVAL;
	} else {
		address.socket.v4.sin_family = AF_INET;
		address.socket.v4.sin_port = htons((uint16_t)port);
		address.bytes = sizeof(address.socket.v4);
		if (inet_pton(AF_INET, host, &address.socket.v4.sin_addr) != 1)
			return -EINVAL;
	}
	*ret_address = address;
	return 0;
}

static int open_socket(const struct address *address)
{
	const int on = 1;
	const int fd = socket(address->socket.any.sa_family,
			      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!bind(fd, &address->socket.any, address->bytes) && !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	(void)close(fd);
	return err;
}

/* Whether a process that is gone has left the socket file: no process answers there. */
static bool is_left_over(const struct address *address)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused;

	if (fd < 0)
		return false;
	refused = connect(fd, &address->socket.any, address->bytes) && errno == ECONNREFUSED;
	(void)close(fd);
	return refused;
}

/* Its user and group may connect, nobody else. */
static int open_unix(const char *path, struct cm_listeners *listeners)
{
	struct address address = {.bytes = sizeof(address.socket.local)};
	struct sockaddr_un *local = &address.socket.local;
	mode_t mask;
	int fd;

	local->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(local->sun_path))
		return -ENAMETOOLONG;
	memcpy(local->sun_path, path, strlen(path) + 1);
	mask = umask(0117);
	fd = open_socket(&address);
	if (fd == -EADDRINUSE && is_left_over(&address) && !unlink(path))
		fd = open_socket(&address);
	(void)umask(mask);
	if (fd >= 0)
		(void)snprintf(listeners->unix_path, sizeof(listeners->unix_path), "%s", path);
	return fd;
}

/* How many sockets systemd has opened for us; 0 if none. */
static size_t count_inherited(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	uint64_t number;

	if (!pid || !fds || cm_number_parse(pid, INT32_MAX, &number) || (pid_t)number != getpid() ||
	    cm_number_parse(fds, INT32_MAX, &number))
		return 0;
	return number < CM_LISTENERS_MAX ? (size_t)number : CM_LISTENERS_MAX;
}

static int take_inherited(size_t count, struct cm_listeners *listeners)
{
	socklen_t bytes = sizeof(int);
	int listens = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		const int fd = INHERITED_AT + (int)i;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) || !listens)
			return cm_fail(CM_EXIT_USAGE, "LISTEN_FDS: %d is not a listening socket",
				       fd);
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
		(void)fcntl(fd, F_SETFL, O_NONBLOCK);
		listeners->fd[listeners->count++] = fd;
	}
	return 0;
}

int cm_listen(const char *address, bool public, struct cm_listeners *ret_listeners)
{
	const size_t inherited = address ? 0 : count_inherited();
	struct cm_listeners listeners = {.count = 0};
	struct address parsed;
	int fd, err;

	if (inherited) {
		err = take_inherited(inherited, &listeners);
		if (!err)
			*ret_listeners = listeners;
		return err;
	}
	if (!address)
		address = CM_LISTEN_DEFAULT;
	if (!strncmp(address, UNIX_WORD, strlen(UNIX_WORD)) && address[strlen(UNIX_WORD)]) {
		fd = open_unix(address + strlen(UNIX_WORD), &listeners);
	} else {
		if (parse_inet(address, &parsed))
			return cm_fail(CM_EXIT_USAGE,
				       "--listen '%s' is invalid, want [ADDR]:PORT or unix:PATH",
				       address);
		if (!public && !is_loopback(&parsed))
			return cm_fail(CM_EXIT_USAGE,
				       "other machines can reach %s, and the page names users and "
				       "programs; use --listen-public if that is intended",
				       address);
		fd = open_socket(&parsed);
	}
	if (fd < 0)
		return cm_fail(CM_EXIT_TARGET, "%s: %s", address, strerror(-fd));
	listeners.fd[listeners.count++] = fd;
	*ret_listeners = listeners;
	return 0;
}

void cm_listen_end(struct cm_listeners *listeners)
{
	size_t i;

	for (i = 0; i < listeners->count; i++)
		(void)close(listeners->fd[i]);
	if (*listeners->unix_path)
		(void)unlink(listeners->unix_path);
	listeners->count = 0;
}

char *cm_listen_name(const struct cm_listeners *listeners, char *text, size_t bytes)
{
	struct address address = {.bytes = sizeof(address.socket)};
	char host[INET6_ADDRSTRLEN] = "";

	(void)snprintf(text, bytes, "?");
	if (getsockname(listeners->fd[0], &address.socket.any, &address.bytes))
		return text;
	if (address.socket.any.sa_family == AF_INET)
		(void)snprintf(text, bytes, "%s:%u",
			       inet_ntop(AF_INET, &address.socket.v4.sin_addr, host, sizeof(host)),
			       ntohs(address.socket.v4.sin_port));
	else if (address.socket.any.sa_family == AF_INET6)
		(void)snprintf(
			text, bytes, "[%s]:%u",
			inet_ntop(AF_INET6, &address.socket.v6.sin6_addr, host, sizeof(host)),
			ntohs(address.socket.v6.sin6_port));
	else
		(void)snprintf(text, bytes, UNIX_WORD "%.*s", (int)sizeof(listeners->unix_path),
			       address.socket.local.sun_path);
	return text;
}
