/* SPDX-License-Identifier: MIT */
/*
 * Writing protocol buffers: three wire types and nested messages. A message is built in memory,
 * since its length comes before it.
 */
#ifndef CM_TOOLS_EXPORT_PROTOBUF_H
#define CM_TOOLS_EXPORT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cm_protobuf {
	uint8_t *bytes;
	size_t count;
	size_t room;
	bool failed; /* an allocation failed: the message is incomplete */
};

void cm_protobuf_fini(struct cm_protobuf *message);
/* Empties the message, but keeps its memory. */
void cm_protobuf_clear(struct cm_protobuf *message);

void cm_protobuf_number(struct cm_protobuf *message, uint32_t field, uint64_t number);
void cm_protobuf_double(struct cm_protobuf *message, uint32_t field, double number);
void cm_protobuf_text(struct cm_protobuf *message, uint32_t field, const char *text);
void cm_protobuf_message(struct cm_protobuf *message, uint32_t field,
			 const struct cm_protobuf *inner);
/* Adds a packed list of numbers. Overwrites `inner`. */
void cm_protobuf_packed(struct cm_protobuf *message, uint32_t field, const uint64_t *numbers,
			size_t count, struct cm_protobuf *inner);

#endif
