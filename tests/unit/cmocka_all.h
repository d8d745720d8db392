/* SPDX-License-Identifier: MIT */
/* cmocka 1.x with the headers that it needs before it. */
#ifndef CM_TESTS_UNIT_CMOCKA_ALL_H
#define CM_TESTS_UNIT_CMOCKA_ALL_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#endif
