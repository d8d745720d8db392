/* SPDX-License-Identifier: MIT */
/*
 * The program reached a function after which devices other than the GPU may access any memory, or
 * whose calls the library does not see. Works before the library has started, too. Thread-safe.
 */
#ifndef CM_INTERPOSE_CORE_REACHED_H
#define CM_INTERPOSE_CORE_REACHED_H

#pragma GCC visibility push(hidden)

/* Notes the function, a string that lasts. Calls `tell`, if it is set. */
void cm_reached_note(const char *symbol);

/* The function that was noted first; NULL: none. */
const char *cm_reached_noted(void);

/* `tell` is called for each note from now on, on any thread, also from within dlsym. */
void cm_reached_on_note(void (*tell)(const char *symbol));

#pragma GCC visibility pop

#endif
