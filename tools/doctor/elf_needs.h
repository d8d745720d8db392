/* SPDX-License-Identifier: MIT */
/*
 * What a shared object needs of its C library. The file is foreign data: every offset is checked
 * against its length. Thread-safe.
 */
#ifndef CM_TOOLS_DOCTOR_ELF_NEEDS_H
#define CM_TOOLS_DOCTOR_ELF_NEEDS_H

#define CM_GLIBC_BYTES 32

/* The highest version GLIBC_x.y that the object needs, as "x.y"; "" if none. Negative errno of
 * open(2) and read(2); -ENOEXEC: it is no object of 64 bits, or damaged. */
int cm_elf_needs_glibc(const char *path, char ret_version[CM_GLIBC_BYTES]);

/* < 0, 0 or > 0, as "2.9" is less than, equal to or greater than "2.34". */
int cm_glibc_compare(const char *a, const char *b);

#endif
