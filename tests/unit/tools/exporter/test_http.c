/* SPDX-License-Identifier: MIT */
/* Requests that are whole, cut, too long or wrong, and which form of the page is preferred. */
#include "tools/exporter/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

#define END "\r\n\r\n"

static const struct {
	const char *text;
	int status;
} requests[] = {
	{"GET /metrics HTTP/1.1\r\nHost: x" END, 0},
	{"GET /metrics HTTP/1.0" END, 0},
	{"HEAD / HTTP/1.1\r\nHost:" END, 0},
	{"GET /metrics?name[]=x HTTP/1.1" END "beyond it", 0},
	{"GET / HTTP/1.1\r\nContent-Length: 0" END, 0},
	{"", -EAGAIN},
	{"GET /metrics HTTP/1.1\r\n", -EAGAIN},
	{"GET /metrics HTTP/1.1\r\nHost: x\r\n", -EAGAIN},
	{END, 400},
	{"GET" END, 400},
	{"GET /metrics" END, 400},
	{"GET  /metrics HTTP/1.1" END, 400},
	{"GET metrics HTTP/1.1" END, 400},
	{"GET /metrics HTTP/1.1\r\nno colon" END, 400},
	{"GET /metrics HTTP/1.1\r\n: no name" END, 400},
	{"GET /metrics HTTP/1.1\rHost: x" END, 400},
	{"GET / HTTP/1.1\r\nContent-Length: 5" END "hello", 400},
	{"GET / HTTP/1.1\r\nTransfer-Encoding: chunked" END, 400},
	{"GET /etc/passwd HTTP/1.1" END, 404},
	{"GET /metrics/ HTTP/1.1" END, 404},
	{"POST /metrics HTTP/1.1" END, 405},
	{"get /metrics HTTP/1.1" END, 405},
	{"GET /metrics HTTP/2.0" END, 505},
};

CM_TEST(requests_are_answered_as_they_deserve)
{
	struct cm_http_request request;
	size_t i;

	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		assert_int_equal(
			cm_http_parse(requests[i].text, strlen(requests[i].text), &request),
			requests[i].status);
}

CM_TEST(a_request_has_a_largest_size)
{
	static char text[CM_HTTP_REQUEST_MAX + 1];
	struct cm_http_request request;

	memset(text, 'a', sizeof(text));
	assert_int_equal(cm_http_parse(text, CM_HTTP_REQUEST_MAX - 1, &request), -EAGAIN);
	assert_int_equal(cm_http_parse(text, CM_HTTP_REQUEST_MAX, &request), 431);
}

CM_TEST(pages_and_methods_are_told_apart)
{
	static const char text[] = "HEAD /-/ready HTTP/1.1" END;
	struct cm_http_request request;

	assert_int_equal(cm_http_parse(text, sizeof(text) - 1, &request), 0);
	assert_int_equal(request.page, CM_HTTP_HEALTHY);
	assert_true(request.head);
	assert_int_equal(cm_http_parse("GET /metrics HTTP/1.1" END, 25, &request), 0);
	assert_int_equal(request.page, CM_HTTP_METRICS);
	assert_false(request.head);
}

static const struct {
	const char *accept;
	bool openmetrics;
} preferences[] = {
	/* Prometheus 2.42 and 3.1 */
	{"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
	 "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
	 true},
	{"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
	 "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
	 true},
	{"Application/OpenMetrics-Text", true},
	{"text/plain, application/openmetrics-text ;q=1.0", true},
	{"text/plain;q=0.9,application/openmetrics-text;q=0.5", false},
	{"application/openmetrics-text;q=0", false},
	{"application/openmetrics-text;q=2", false},
	{"application/openmetrics-text;q=0.123456789", false},
	{"application/openmetrics-text;q=high", false},
	{"application/openmetrics-texts", false},
	{"text/html,*/*;q=0.8", false},
	{"", false},
	{",;,;q=,", false},
};

CM_TEST(the_form_is_the_one_preferred)
{
	struct cm_http_request request;
	char text[512];
	size_t i;

	for (i = 0; i < sizeof(preferences) / sizeof(preferences[0]); i++) {
		(void)snprintf(text, sizeof(text), "GET /metrics HTTP/1.1\r\naccept:%s" END,
			       preferences[i].accept);
		assert_int_equal(cm_http_parse(text, strlen(text), &request), 0);
		assert_int_equal(request.openmetrics, preferences[i].openmetrics);
	}
}

CM_TEST(a_head_says_how_long_its_body_is)
{
	char head[CM_HTTP_HEAD_MAX];
	const size_t bytes = cm_http_head(head, 200, "text/plain", 7);

	assert_int_equal(bytes, strlen(head));
	assert_non_null(strstr(head, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(head, "\r\nContent-Length: 7\r\n"));
	assert_null(strstr(head, "Allow"));
	(void)cm_http_head(head, 405, "text/plain", 0);
	assert_non_null(strstr(head, "\r\nAllow: GET, HEAD\r\n"));
}
