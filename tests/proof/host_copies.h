/* SPDX-License-Identifier: MIT */
/*
 * The forms in which a program copies between a block and memory of the host, or writes memory that
 * both see: each submits its work to the stream and waits for nothing.
 */
#ifndef CM_TESTS_PROOF_HOST_COPIES_H
#define CM_TESTS_PROOF_HOST_COPIES_H

#include "tests/proof/state.h"

struct proof_copy {
	CUdeviceptr dst, src;
	size_t bytes;
	bool to_host;
	CUcontext ctx; /* current */
	CUstream stream;
	CUevent event; /* of the stream, to order others behind it */
};

/* By the form of that number, of any number. False where the driver refused. */
bool proof_copy_in_form(struct proof_hand *hand, const struct proof_copy *copy, uint64_t form);

/* The same for a write of `value` to `n` words at an address of the current context. */
struct proof_write {
	CUdeviceptr dst;
	uint32_t value;
	size_t n;
	CUfunction touch;
	CUstream stream;
};

/* False where the driver refused; else all words are written once the stream comes to it. */
bool proof_write_in_form(struct proof_hand *hand, const struct proof_write *write, uint64_t form);

#endif
