/* SPDX-License-Identifier: MIT */
/* Functions of known lines, for the test of interpose/stacks/source.c. */
#ifndef CM_TESTS_UNIT_SOURCE_LINE_H
#define CM_TESTS_UNIT_SOURCE_LINE_H

struct source_line {
	int (*function)(int value);
	int line;
};

struct source_line source_line_2(void);
struct source_line source_line_3(void);
struct source_line source_line_4(void);
struct source_line source_line_5(void);

#endif
