/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a request, arriving whole and byte by byte: the same verdict, known statuses alone,
 * and no byte behind the request's end is looked at.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/exporter/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MUST(condition) ((condition) ? (void)0 : abort())

static int parse(const uint8_t *data, size_t bytes, struct cm_http_request *ret_request)
{
	char *text = malloc(bytes ? bytes : 1); /* its exact size, for a sanitizer */
	int status;

	MUST(text);
	if (bytes)
		memcpy(text, data, bytes);
	status = cm_http_parse(text, bytes, ret_request);
	free(text);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct cm_http_request request = {.page = 77}, again = {.page = 77};
	const int status = parse(data, bytes, &request);
	char head[CM_HTTP_HEAD_MAX];
	int first = -EAGAIN;
	size_t n;

	MUST(status == 0 || status == -EAGAIN || status == 400 || status == 404 || status == 405 ||
	     status == 431 || status == 505);
	MUST((status == 0) == ((int)request.page != 77)); /* written on success alone */
	MUST(status != -EAGAIN || bytes < CM_HTTP_REQUEST_MAX);
	for (n = 0; n <= bytes && first == -EAGAIN; n++)
		first = parse(data, n, &again);
	MUST(first == status || (first == 431 && bytes > CM_HTTP_REQUEST_MAX));
	MUST(first || (again.page == request.page && again.openmetrics == request.openmetrics));
	MUST(cm_http_head(head, status, "text/plain", bytes) < CM_HTTP_HEAD_MAX);
	return 0;
}
