/* SPDX-License-Identifier: MIT */
/*
 * The sockets that the exporter answers on: one that it makes, or those that systemd has made for
 * it (sd_listen_fds(3), of which the protocol is two variables).
 */
#ifndef CM_TOOLS_EXPORTER_LISTEN_H
#define CM_TOOLS_EXPORTER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#define CM_LISTEN_DEFAULT "127.0.0.1:9475"
#define CM_LISTENERS_MAX  4

struct cm_listeners {
	int fd[CM_LISTENERS_MAX]; /* non-blocking */
	size_t count;
	char unix_path[108]; /* of a socket file that we made, "" for none */
};

/*
 * `address` is [ADDR]:PORT, or unix:PATH. Without ADDR it is 127.0.0.1; an address of IPv6 stands
 * in brackets. NULL takes the sockets of systemd, or CM_LISTEN_DEFAULT if there are none. An
 * address that others can reach is refused unless `public`: the page names users and programs. 0,
 * or an exit code after a complaint.
 */
int cm_listen(const char *address, bool public, struct cm_listeners *ret_listeners);
/* Closes the sockets, and removes the file that was made for one. */
void cm_listen_end(struct cm_listeners *listeners);

/* Writes the address of the first socket, as --listen takes it. Returns `text`. */
char *cm_listen_name(const struct cm_listeners *listeners, char *text, size_t bytes);

#endif
