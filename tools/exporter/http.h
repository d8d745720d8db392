/* SPDX-License-Identifier: MIT */
/*
 * The part of HTTP that a scrape needs: requests without a body, read as a whole, and the head of
 * an answer. Pure. Requests are foreign data.
 */
#ifndef CM_TOOLS_EXPORTER_HTTP_H
#define CM_TOOLS_EXPORTER_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#define CM_HTTP_REQUEST_MAX 8192
#define CM_HTTP_HEAD_MAX    512

enum cm_http_page {
	CM_HTTP_METRICS, /* /metrics */
	CM_HTTP_START,   /* / */
	CM_HTTP_HEALTHY, /* /-/healthy and /-/ready */
};

struct cm_http_request {
	enum cm_http_page page;
	bool head;        /* the answer is to have no body */
	bool openmetrics; /* it is preferred to the text format */
};

/*
 * 0: a whole request; -EAGAIN: not all of it has arrived; above 0: the status to refuse it with.
 */
int cm_http_parse(const char *bytes, size_t count, struct cm_http_request *ret_request);

/* Writes the head of an answer. Returns its bytes, fewer than CM_HTTP_HEAD_MAX. */
size_t cm_http_head(char head[CM_HTTP_HEAD_MAX], int status, const char *type, size_t body_bytes);

#endif
