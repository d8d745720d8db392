/* SPDX-License-Identifier: MIT */
/*
 * A piece of a device's memory as another process can find it: the memory file is opened anew
 * through /proc, so the owner must live and be of the same user. Thread-safe.
 */
#ifndef CM_SIM_SHARED_H
#define CM_SIM_SHARED_H

#include <stdint.h>
#include <sys/types.h>

struct sim_device;

enum { SIM_SHARED_NO_DEVICE = -1 };

struct sim_shared {
	uint64_t magic;
	pid_t pid;
	int fd;         /* the memory file in that process */
	int device;     /* or SIM_SHARED_NO_DEVICE */
	int unused;     /* no padding: handles are compared as bytes */
	uint64_t inode; /* of the file, so that a number used again is noticed */
	uint64_t offset;
	uint64_t bytes;
	uint64_t id; /* of the allocation */
};

void sim_shared_describe(struct sim_shared *shared, const struct sim_device *device,
			 uint64_t offset, uint64_t bytes);
/* The same of another file that is no device's memory. */
void sim_shared_describe_file(struct sim_shared *shared, int fd, uint64_t offset, uint64_t bytes);
/* The file, opened; or a negative errno when the owner is gone or it is no description. */
int sim_shared_open(const struct sim_shared *shared);

/* A file that holds the description, for handing over by SCM_RIGHTS. A negative errno: failed. */
int sim_shared_write(const struct sim_shared *shared);
/* 0, or a negative errno when the file holds none. */
int sim_shared_read(int fd, struct sim_shared *ret_shared);

#endif
