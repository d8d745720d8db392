/* SPDX-License-Identifier: MIT */
/* The rows of naming.def with our stubs. Data only, as hook_rows.c. */
#include "interpose/wrappers/naming.h"

#define CM_NAMING(id, symbol, version, library, missing, names) \
	extern char cm_naming_stub_##id[] __attribute__((visibility("hidden")));
#include "interpose/symbols/naming.def"

#define RANGE(address, bytes) cm_name_range, address, bytes
#define BLOCK(address)        cm_name_block, address, 0
#define VECTORS(list, n)      cm_name_vectors, list, n
#define BATCH(list, n)        cm_name_batch, list, n
#define UMEM(in)              cm_name_umem, in, 0
#define ALL                   cm_name_all, 0, 0

const struct cm_naming cm_namings[CM_NAMING_COUNT] = {
#define CM_NAMING(id, symbol, version, library, missing, names) \
	{#symbol, version, library, cm_naming_stub_##id, names, CM_NAMING_##missing},
#include "interpose/symbols/naming.def"
};
