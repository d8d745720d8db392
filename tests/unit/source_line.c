/* SPDX-License-Identifier: MIT */
/* A function that no loaded table names, compiled with each version of DWARF (VARIANT). */
#include "tests/unit/source_line.h"

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

/* Its last line. */
__attribute__((noinline)) static int hidden_function(int value)
{
	return value + __LINE__;
}

struct source_line NAME(source_line_, VARIANT)(void)
{
	return (struct source_line){hidden_function, hidden_function(0)};
}
