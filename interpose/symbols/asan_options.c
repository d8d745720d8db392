/* SPDX-License-Identifier: MIT */
/*
 * AddressSanitizer asks for its default options by this function before anything of the process
 * has run. Without an answer its shared runtime ends the program, as it wants to be first in the
 * list of libraries, and a preloaded library stands before it. The order does no harm: what it
 * replaces, this library calls and does not define. A program that has such a function of its own
 * is asked in our place.
 */

__attribute__((visibility("default"))) const char *__asan_default_options(void);

/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl*): AddressSanitizer's name */
const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
