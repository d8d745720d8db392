/* SPDX-License-Identifier: MIT */
/*
 * Pickles of Python, value by value: the encoding alone. tools/output/json.h says what is nested in
 * what. Protocol 4, and only the opcodes that PyTorch's viewer understands. A key that was written
 * before is written as a reference. A failed allocation is reported by cm_pickle_close().
 */
#ifndef CM_TOOLS_OUTPUT_PICKLE_H
#define CM_TOOLS_OUTPUT_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Items of a container between two cm_pickle_*_batch(): as CPython writes them, and as PyTorch's
 * viewer requires. */
#define CM_PICKLE_BATCH 1000

struct cm_pickle;

/* NULL: not enough memory. Errors of the file are for its owner to find. */
struct cm_pickle *cm_pickle_open(FILE *file);
/* Ends the pickle and frees. -ENOMEM: an allocation failed, the pickle is not complete. */
int cm_pickle_close(struct cm_pickle *pickle);

/* Begins a dictionary or a list; its items follow in batches. */
void cm_pickle_container(struct cm_pickle *pickle, bool dict);
void cm_pickle_begin_batch(struct cm_pickle *pickle);
void cm_pickle_end_batch(struct cm_pickle *pickle, bool dict);

void cm_pickle_key(struct cm_pickle *pickle, const char *key);
void cm_pickle_text(struct cm_pickle *pickle, const char *text);
void cm_pickle_number(struct cm_pickle *pickle, int64_t number);
void cm_pickle_real(struct cm_pickle *pickle, double number);
void cm_pickle_bool(struct cm_pickle *pickle, bool value);
void cm_pickle_none(struct cm_pickle *pickle);
/* A tuple. */
void cm_pickle_pair(struct cm_pickle *pickle, int64_t first, int64_t second);

/* Containers that are written once and referred to later, by an id within their kind. */
enum cm_pickle_kind { CM_PICKLE_FRAME, CM_PICKLE_STACK, CM_PICKLE_KINDS };

bool cm_pickle_is_known(const struct cm_pickle *pickle, enum cm_pickle_kind kind, uint32_t id);
/* Writes a reference to a container that is known. */
void cm_pickle_refer(struct cm_pickle *pickle, enum cm_pickle_kind kind, uint32_t id);
/* The container that is begun next is this one. */
void cm_pickle_expect(struct cm_pickle *pickle, enum cm_pickle_kind kind, uint32_t id);

#endif
