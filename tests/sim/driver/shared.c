/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

#define MAGIC 0x6d69736164756371u

void sim_shared_describe_file(struct sim_shared *shared, int fd, uint64_t offset, uint64_t bytes)
{
	struct stat file;

	*shared = (struct sim_shared){
		.magic = MAGIC,
		.pid = getpid(),
		.fd = fd,
		.device = SIM_SHARED_NO_DEVICE,
		.offset = offset,
		.bytes = bytes,
	};
	if (fstat(fd, &file) == 0)
		shared->inode = file.st_ino;
}

void sim_shared_describe(struct sim_shared *shared, const struct sim_device *device,
			 uint64_t offset, uint64_t bytes)
{
	sim_shared_describe_file(shared, device->vram.fd, offset, bytes);
	shared->device = device->ordinal;
}

int sim_shared_open(const struct sim_shared *shared)
{
	char path[64];
	struct stat file;
	int fd;

	if (shared->magic != MAGIC)
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)shared->pid, shared->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &file) || file.st_ino != shared->inode) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

int sim_shared_write(const struct sim_shared *shared)
{
	int fd = memfd_create("cudasim-handle", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (write(fd, shared, sizeof(*shared)) != (ssize_t)sizeof(*shared)) {
		close(fd);
		return -EIO;
	}
	return fd;
}

int sim_shared_read(int fd, struct sim_shared *ret_shared)
{
	if (pread(fd, ret_shared, sizeof(*ret_shared), 0) != (ssize_t)sizeof(*ret_shared))
		return -EINVAL;
	return ret_shared->magic == MAGIC ? 0 : -EINVAL;
}
