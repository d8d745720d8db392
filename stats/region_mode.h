/* SPDX-License-Identifier: MIT */
/*
 * The mode of a region's file: nobody opens it for writing as it is, so that no slip of its own
 * user cuts it short (`truncate -s 0`, `cp x FILE`), which would be a SIGBUS in the program. Its
 * maker has it open for writing since it made it. Other processes that write to it open it here. A
 * mode does not stop those that may write to any file (CAP_DAC_OVERRIDE, as root has).
 */
#ifndef CM_STATS_REGION_MODE_H
#define CM_STATS_REGION_MODE_H

#define CM_REGION_MODE 0400

/*
 * Opens a region's file for reading and writing. `dir`, `name` as for openat(2); `flags`: 0 or
 * O_NOFOLLOW. Returns a descriptor that the caller closes, or negative errno. Its owner makes it
 * writable for as long as that takes. Several may do so at once: each tries again if another has
 * put the mode back too early for it, after a rest of microseconds, for some 10 ms at most; whoever
 * is last puts it back. Waits for nobody.
 */
int cm_region_open_writable(int dir, const char *name, int flags);

#endif
