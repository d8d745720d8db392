/* SPDX-License-Identifier: MIT */
#include "tools/exporter/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OPENMETRICS "application/openmetrics-text"
#define TEXT        "text/plain"

static const struct {
	const char *path;
	enum cm_http_page page;
} pages[] = {
	{"/metrics", CM_HTTP_METRICS},
	{"/", CM_HTTP_START},
	{"/-/healthy", CM_HTTP_HEALTHY},
	{"/-/ready", CM_HTTP_HEALTHY},
};

static const struct {
	int status;
	const char *words;
} statuses[] = {
	{200, "OK"},
	{400, "Bad Request"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{505, "HTTP Version Not Supported"},
};

/* A piece of the request. No zero byte ends it. */
struct span {
	const char *at;
	size_t bytes;
};

static bool is_word(struct span span, const char *word)
{
	return span.bytes == strlen(word) && !memcmp(span.at, word, span.bytes);
}

static bool is_name(struct span span, const char *name)
{
	return span.bytes == strlen(name) && !strncasecmp(span.at, name, span.bytes);
}

/* Cuts off the text before `end`, and `end` itself; all of the text if `end` is not in it. */
static struct span cut(struct span *text, char end)
{
	const char *at = memchr(text->at, end, text->bytes);
	struct span piece = {text->at, at ? (size_t)(at - text->at) : text->bytes};
	const size_t taken = at ? piece.bytes + 1 : piece.bytes;

	text->at += taken;
	text->bytes -= taken;
	return piece;
}

static struct span trim(struct span span)
{
	while (span.bytes && (span.at[0] == ' ' || span.at[0] == '\t')) {
		span.at++;
		span.bytes--;
	}
	while (span.bytes && (span.at[span.bytes - 1] == ' ' || span.at[span.bytes - 1] == '\t'))
		span.bytes--;
	return span;
}

static int parse_target(struct span target, enum cm_http_page *ret_page)
{
	const struct span path = cut(&target, '?');
	size_t i;

	for (i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		if (is_word(path, pages[i].path)) {
			*ret_page = pages[i].page;
			return 0;
		}
	}
	return path.bytes && path.at[0] == '/' ? 404 : 400;
}

static int parse_request_line(struct span line, struct cm_http_request *request)
{
	const struct span method = cut(&line, ' '), target = cut(&line, ' ');

	if (!is_word(line, "HTTP/1.1") && !is_word(line, "HTTP/1.0"))
		return line.bytes > 5 && !memcmp(line.at, "HTTP/", 5) ? 505 : 400;
	request->head = is_word(method, "HEAD");
	if (!request->head && !is_word(method, "GET"))
		return 405;
	return parse_target(target, &request->page);
}

/* Thousandths of a "q=0.75"; 1000 if there is none, 0 if it is no number. */
static unsigned parse_quality(struct span parameters)
{
	char digits[8] = "";
	struct span piece;

	while (parameters.bytes) {
		piece = trim(cut(&parameters, ';'));
		if (piece.bytes < 2 || strncasecmp(piece.at, "q=", 2))
			continue;
		if (piece.bytes - 2 >= sizeof(digits))
			return 0;
		memcpy(digits, piece.at + 2, piece.bytes - 2);
		if (digits[strspn(digits, "0123456789.")] || strtod(digits, NULL) > 1)
			return 0;
		return (unsigned)(1000 * strtod(digits, NULL) + 0.5);
	}
	return 1000;
}

/* A client that accepts both gets the one with the higher quality; OpenMetrics if they are
 * equal. */
static bool prefers_openmetrics(struct span accept)
{
	unsigned quality, openmetrics = 0, text = 0;
	struct span range, type;

	while (accept.bytes) {
		range = cut(&accept, ',');
		type = trim(cut(&range, ';'));
		quality = parse_quality(range);
		if (is_name(type, OPENMETRICS) && quality > openmetrics)
			openmetrics = quality;
		if (is_name(type, TEXT) && quality > text)
			text = quality;
	}
	return openmetrics && openmetrics >= text;
}

/* One header. A header that announces a body is refused, since no body is read. */
static int parse_header(struct span line, struct cm_http_request *request)
{
	const struct span name = cut(&line, ':'), value = trim(line);

	if (!name.bytes || line.at == name.at + name.bytes)
		return 400;
	if (is_name(name, "Accept"))
		request->openmetrics = prefers_openmetrics(value);
	if (is_name(name, "Transfer-Encoding") ||
	    (is_name(name, "Content-Length") && !is_word(value, "0")))
		return 400;
	return 0;
}

int cm_http_parse(const char *bytes, size_t count, struct cm_http_request *ret_request)
{
	struct cm_http_request request = {.page = CM_HTTP_START};
	const char *end = memmem(bytes, count, "\r\n\r\n", 4);
	struct span rest, line;
	int status;

	if (!end)
		return count >= CM_HTTP_REQUEST_MAX ? 431 : -EAGAIN;
	rest = (struct span){bytes, (size_t)(end - bytes) + 2};
	line = cut(&rest, '\r');
	status = parse_request_line(line, &request);
	while (!status && rest.bytes > 1) {
		if (rest.at[0] != '\n')
			return 400;
		rest.at++;
		rest.bytes--;
		line = cut(&rest, '\r');
		status = parse_header(line, &request);
	}
	if (!status)
		*ret_request = request;
	return status;
}

size_t cm_http_head(char head[CM_HTTP_HEAD_MAX], int status, const char *type, size_t body_bytes)
{
	const char *words = "Error";
	size_t i;

	for (i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].status == status)
			words = statuses[i].words;
	return (size_t)snprintf(head, CM_HTTP_HEAD_MAX,
				"HTTP/1.1 %d %s\r\n"
				"Content-Type: %s\r\n"
				"Content-Length: %zu\r\n"
				"X-Content-Type-Options: nosniff\r\n"
				"%s"
				"Connection: close\r\n\r\n",
				status, words, type, body_bytes,
				status == 405 ? "Allow: GET, HEAD\r\n" : "");
}
