/* SPDX-License-Identifier: MIT */
/*
 * Stands in for libibverbs: its symbols in their versions. The card writes to what is registered at
 * once, unordered by any stream: the checker of the simulated driver hears of it. The answer is the
 * version that was called.
 */
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/cudasim.h"

#define VERSIONED(name, symbol)                                       \
	__attribute__((visibility("default"))) __typeof__(name) name; \
	__asm__(".symver " #name ", " symbol)

void *reg_mr_1_0(void *domain, void *addr, size_t bytes, int access);
void *reg_mr_1_1(void *domain, void *addr, size_t bytes, int access);
void *reg_mr_iova(void *domain, void *addr, size_t bytes, uint64_t iova, int access);
void *reg_mr_iova2(void *domain, void *addr, size_t bytes, uint64_t iova, unsigned int access);
int rereg_mr(void *region, int flags, void *domain, void *addr, size_t bytes, int access);

VERSIONED(reg_mr_1_0, "ibv_reg_mr@IBVERBS_1.0");
VERSIONED(reg_mr_1_1, "ibv_reg_mr@@IBVERBS_1.1");
VERSIONED(reg_mr_iova, "ibv_reg_mr_iova@@IBVERBS_1.7");
VERSIONED(reg_mr_iova2, "ibv_reg_mr_iova2@@IBVERBS_1.8");
VERSIONED(rereg_mr, "ibv_rereg_mr@@IBVERBS_1.1");

void *reg_mr_1_0(void *domain, void *addr, size_t bytes, int access)
{
	(void)domain;
	(void)access;
	cudasim_host_write(addr, bytes);
	return (void *)10;
}

void *reg_mr_1_1(void *domain, void *addr, size_t bytes, int access)
{
	(void)reg_mr_1_0(domain, addr, bytes, access);
	return (void *)11;
}

void *reg_mr_iova(void *domain, void *addr, size_t bytes, uint64_t iova, int access)
{
	(void)iova;
	(void)reg_mr_1_0(domain, addr, bytes, access);
	return (void *)17;
}

void *reg_mr_iova2(void *domain, void *addr, size_t bytes, uint64_t iova, unsigned int access)
{
	(void)reg_mr_iova(domain, addr, bytes, iova, (int)access);
	return (void *)18;
}

int rereg_mr(void *region, int flags, void *domain, void *addr, size_t bytes, int access)
{
	(void)region;
	(void)flags;
	(void)reg_mr_1_0(domain, addr, bytes, access);
	return 11;
}
