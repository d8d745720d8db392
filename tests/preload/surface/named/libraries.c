/* SPDX-License-Identifier: MIT */
/*
 * Stands in for libcufile, libgdrapi, libmlx5 and the host part of NVSHMEM, each loaded under its
 * name: files and cards write to what they are given, at once and unordered by any stream. Each
 * argument comes back in the answer, so that a call that is not forwarded untouched is found.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tests/sim/cudasim.h"

#define PUBLIC __attribute__((visibility("default")))

struct status {
	int error;
	int driver_error;
};

struct operation {
	int mode;
	void *base;
	off_t file_offset;
	off_t offset;
	size_t bytes;
	void *file;
	int opcode;
	void *cookie;
};

struct umem {
	void *addr;
	size_t bytes;
};

PUBLIC struct status cuFileBufRegister(const void *base, size_t bytes, int flags);
PUBLIC struct status cuFileBufRegister(const void *base, size_t bytes, int flags)
{
	cudasim_host_write(base, bytes);
	return (struct status){flags, flags + 1};
}

PUBLIC ssize_t cuFileRead(void *file, void *base, size_t bytes, off_t at, off_t offset);
PUBLIC ssize_t cuFileRead(void *file, void *base, size_t bytes, off_t at, off_t offset)
{
	cudasim_host_write((char *)base + offset, bytes);
	return (intptr_t)file + (ssize_t)at;
}

PUBLIC ssize_t cuFileWrite(void *file, const void *base, size_t bytes, off_t at, off_t offset);
PUBLIC ssize_t cuFileWrite(void *file, const void *base, size_t bytes, off_t at, off_t offset)
{
	cudasim_host_read((const char *)base + offset, bytes);
	return (intptr_t)file + (ssize_t)at;
}

PUBLIC ssize_t cuFileReadv(void *file, const struct iovec *list, size_t n, off_t at,
			   unsigned flags);
PUBLIC ssize_t cuFileReadv(void *file, const struct iovec *list, size_t n, off_t at, unsigned flags)
{
	size_t i;

	for (i = 0; i < n; i++)
		cudasim_host_write(list[i].iov_base, list[i].iov_len);
	return (intptr_t)file + (ssize_t)at + (ssize_t)flags;
}

/* Seven arguments: one is on the stack. */
PUBLIC struct status cuFileReadAsync(void *file, void *base, const size_t *bytes, const off_t *at,
				     const off_t *offset, ssize_t *done, const void *stream);
PUBLIC struct status cuFileReadAsync(void *file, void *base, const size_t *bytes, const off_t *at,
				     const off_t *offset, ssize_t *done, const void *stream)
{
	(void)file;
	(void)at;
	cudasim_host_write((char *)base + *offset, *bytes);
	*done = (ssize_t)*bytes;
	return (struct status){(int)(intptr_t)stream, 0};
}

PUBLIC struct status cuFileBatchIOSubmit(void *batch, unsigned n, const struct operation *list,
					 unsigned flags);
PUBLIC struct status cuFileBatchIOSubmit(void *batch, unsigned n, const struct operation *list,
					 unsigned flags)
{
	unsigned i;

	for (i = 0; i < n; i++)
		cudasim_host_write((char *)list[i].base + list[i].offset, list[i].bytes);
	return (struct status){(int)(intptr_t)batch, (int)flags};
}

PUBLIC int gdr_pin_buffer(void *gdr, unsigned long addr, size_t bytes, uint64_t token,
			  uint32_t space, void *handle);
PUBLIC int gdr_pin_buffer(void *gdr, unsigned long addr, size_t bytes, uint64_t token,
			  uint32_t space, void *handle)
{
	(void)gdr;
	(void)handle;
	cudasim_host_write((void *)addr, bytes);
	return (int)token + (int)space;
}

PUBLIC void *mlx5dv_devx_umem_reg_ex(void *context, const struct umem *in);
PUBLIC void *mlx5dv_devx_umem_reg_ex(void *context, const struct umem *in)
{
	cudasim_host_write(in->addr, in->bytes);
	return context;
}

PUBLIC int nvshmemx_hostlib_init_attr(unsigned int flags, void *attributes);
PUBLIC int nvshmemx_hostlib_init_attr(unsigned int flags, void *attributes)
{
	return attributes ? -1 : (int)flags;
}
