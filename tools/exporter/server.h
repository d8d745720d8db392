/* SPDX-License-Identifier: MIT */
/*
 * Answers requests on listening sockets, in one thread, until a signal asks it to end. What a
 * client can cost is bounded: CM_HTTP_REQUEST_MAX bytes of request, a few connections at a time,
 * and seconds for each of them. TLS and passwords are left to a proxy.
 */
#ifndef CM_TOOLS_EXPORTER_SERVER_H
#define CM_TOOLS_EXPORTER_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/exporter/listen.h"

#define CM_CONNECTIONS_MAX 16
#define CM_CONNECTION_SECS 5 /* for a request to arrive, and again for its answer to leave */

/* Makes the page, to be freed by free(3). NULL: it could not be made. */
typedef char *(*cm_page_fn)(void *data, bool openmetrics, size_t *ret_bytes);

/* Once it handles signals, it prints to stderr where it listens. Returns an exit code; 0 after
 * SIGTERM or SIGINT. */
int cm_serve(const struct cm_listeners *listeners, cm_page_fn page, void *data);

#endif
