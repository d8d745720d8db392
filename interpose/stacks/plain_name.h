/* SPDX-License-Identifier: MIT */
/*
 * The name of a function as a person reads it, from its name in the symbol table: C++'s "Itanium"
 * mangling without parameters and template arguments, such as "solver::grow". Pure.
 */
#ifndef CM_INTERPOSE_STACKS_PLAIN_NAME_H
#define CM_INTERPOSE_STACKS_PLAIN_NAME_H

#include <stddef.h>

/* Cut to `bytes`, at least 1. What cannot be read is copied as it is, without the suffixes of the
 * compiler (".isra.0"). Of a local class or lambda: the function it is in. */
void cm_plain_name(char *to, size_t bytes, const char *symbol);

#endif
