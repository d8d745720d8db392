/* SPDX-License-Identifier: MIT */
/* The fake driver's memory: allocations, pinned memory, address ranges and pages. */
#include "tests/unit/fake_parts.h"

#include <string.h>

#define MIB          (UINT64_C(1) << 20)
#define PAGE         (2 * MIB)
#define DEVICE_BASE  UINT64_C(0x700000000000)
#define DEVICE_BYTES (UINT64_C(1) << 40)

static struct fake_page *find_page(uint64_t addr)
{
	size_t i;

	for (i = 0; i < fake->pages; i++)
		if (fake->page[i].addr && addr >= fake->page[i].addr &&
		    addr - fake->page[i].addr < fake->page[i].bytes)
			return &fake->page[i];
	return NULL;
}

/* Whether the context may use all of the range. */
bool fake_is_given(const struct fake_context *context, uint64_t addr, uint64_t bytes)
{
	struct fake_page *page;
	size_t i;

	while (addr >= FAKE_RANGE_BASE && addr < fake->next_range) {
		page = find_page(addr);
		if (!page || !(page->open >> page->device & 1) || page->device != context->device)
			return false;
		page->user = context->handle;
		if (addr + bytes <= page->addr + page->bytes)
			return true;
		bytes -= page->addr + page->bytes - addr;
		addr = page->addr + page->bytes;
	}
	for (i = 0; i < fake->memories; i++)
		if (addr >= fake->memory[i].addr &&
		    addr + bytes <= fake->memory[i].addr + fake->memory[i].bytes)
			return fake->memory[i].ctx == context->handle;
	return false;
}

/* Who gives memory to the driver while work of another context touches it has the driver to blame:
 * that work touches nothing of ours any more. */
static void forgive(uint64_t addr, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (fake_touches(&fake->work[i], addr, bytes))
			fake->work[i].bytes = 0;
}

/* The driver has the range back. */
static void forget_names(uint64_t addr, uint64_t bytes)
{
	size_t i, kept = 0;

	for (i = 0; i < fake->names; i++)
		if (fake->named[i].addr >= addr + bytes ||
		    addr >= fake->named[i].addr + fake->named[i].bytes)
			fake->named[kept++] = fake->named[i];
	fake->names = kept;
}

static void remove_memory(size_t at)
{
	forget_names(fake->memory[at].addr, fake->memory[at].bytes);
	forgive(fake->memory[at].addr, fake->memory[at].bytes);
	fake->used_bytes[fake->memory[at].device] -= fake->memory[at].bytes;
	fake->memories--;
	memmove(&fake->memory[at], &fake->memory[at + 1],
		(fake->memories - at) * sizeof(fake->memory[0]));
}

void fake_forget_memory_of(uint64_t ctx)
{
	size_t i;

	for (i = fake->memories; i-- > 0;)
		if (fake->memory[i].ctx == ctx)
			remove_memory(i);
	for (i = 0; i < fake->pages; i++)
		if (fake->page[i].addr && fake->page[i].user == ctx)
			forgive(fake->page[i].addr, fake->page[i].bytes);
}

/* Where `bytes` fit between the device's memories; *ret_at is where they go in the table. */
static uint64_t find_gap(uint32_t device, uint64_t bytes, size_t *ret_at)
{
	uint64_t grain = bytes >= PAGE ? PAGE : 512, addr = DEVICE_BASE + device * DEVICE_BYTES;
	size_t i;

	for (i = 0; i < fake->memories; i++) {
		if (fake->memory[i].device < device)
			continue;
		if (fake->memory[i].device > device || addr + bytes <= fake->memory[i].addr)
			break;
		addr = (fake->memory[i].addr + fake->memory[i].bytes + grain - 1) / grain * grain;
	}
	*ret_at = i;
	return addr;
}

/* Memory of a device, or of the host; with the lock taken. */
static int take_memory(uint64_t ctx, uint32_t device, uint32_t kind, uint64_t bytes,
		       uint64_t *ret_addr)
{
	size_t at;

	if (bytes > fake->limit_bytes - fake->used_bytes[device])
		return CM_DRIVER_OUT_OF_MEMORY;
	*ret_addr = find_gap(device, bytes, &at);
	fake->memory = fake_grow(fake->memory, &fake->memory_room, fake->memories + 1,
				 sizeof(fake->memory[0]));
	memmove(&fake->memory[at + 1], &fake->memory[at],
		(fake->memories - at) * sizeof(fake->memory[0]));
	fake->memory[at] = (struct fake_memory){*ret_addr, bytes, ctx, device, kind};
	fake->memories++;
	fake->used_bytes[device] += bytes;
	return 0;
}

int fake_mem_alloc(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	int err = fake_begin(FAKE_MEM_ALLOC, ctx);

	return fake_end_later(
		err ? err : take_memory(ctx, fake_find_context(ctx)->device, 0, bytes, ret_addr));
}

int fake_host_alloc(uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr)
{
	int err = fake_begin(FAKE_HOST_ALLOC, ctx);

	return fake_end_later(err ? err : take_memory(ctx, FAKE_HOST, kind, bytes, ret_addr));
}

/* As cuMemFree is seen to do, it waits for the context; for cuMemFreeHost it is the worst case. */
static int give_memory(uint64_t ctx, bool host, uint64_t addr)
{
	size_t i;

	for (i = 0; i < fake->memories; i++)
		if (fake->memory[i].addr == addr && fake->memory[i].ctx == ctx &&
		    (fake->memory[i].device == FAKE_HOST) == host)
			break;
	if (i == fake->memories) {
		fake_complain("a free of what the driver has not given", ctx, addr);
		return FAKE_INVALID_VALUE;
	}
	fake_wait_for(ctx, UINT64_MAX);
	remove_memory(i);
	return 0;
}

int fake_mem_free(uint64_t ctx, uint64_t addr)
{
	int err = fake_begin(FAKE_MEM_FREE, ctx);

	return fake_end(err ? err : give_memory(ctx, false, addr));
}

int fake_host_free(uint64_t ctx, uint64_t addr)
{
	int err = fake_begin(FAKE_HOST_FREE, ctx);

	return fake_end(err ? err : give_memory(ctx, true, addr));
}

int fake_range_reserve(uint64_t bytes, uint64_t *ret_addr)
{
	int err = fake_begin_of_process(FAKE_RANGE_RESERVE);

	if (err)
		return fake_end(err);
	if (!bytes || bytes % PAGE)
		fake_complain("a range that is no pages", bytes, 0);
	*ret_addr = fake->next_range;
	fake->next_range += bytes;
	return fake_end_later(0);
}

int fake_range_free(uint64_t addr, uint64_t bytes)
{
	int err = fake_begin_of_process(FAKE_RANGE_FREE);
	size_t i;

	for (i = 0; !err && i < fake->pages; i++)
		if (fake->page[i].addr >= addr && fake->page[i].addr < addr + bytes)
			fake_complain("a range is freed with a page in it", addr,
				      fake->page[i].addr);
	return fake_end(err);
}

int fake_page_create(int32_t ordinal, uint64_t bytes, uint64_t *ret_page)
{
	int err = fake_begin_of_process(FAKE_PAGE_CREATE);

	if (!err && bytes > fake->limit_bytes - fake->used_bytes[ordinal])
		err = CM_DRIVER_OUT_OF_MEMORY;
	if (err)
		return fake_end(err);
	fake->page = fake_grow(fake->page, &fake->page_room, fake->pages + 1,
			       sizeof(fake->page[0]));
	fake->page[fake->pages++] = (struct fake_page){.bytes = bytes, .device = (uint32_t)ordinal};
	fake->used_bytes[ordinal] += bytes;
	*ret_page = fake->pages;
	return fake_end_later(0);
}

static struct fake_page *page_of(uint64_t handle)
{
	if (handle && handle <= fake->pages && fake->page[handle - 1].bytes)
		return &fake->page[handle - 1];
	fake_complain("a page that the driver has not given", handle, 0);
	return NULL;
}

int fake_page_release(uint64_t handle)
{
	int err = fake_begin_of_process(FAKE_PAGE_RELEASE);
	struct fake_page *page = err ? NULL : page_of(handle);

	if (!page)
		return fake_end(err ? err : FAKE_INVALID_VALUE);
	if (page->addr)
		fake_complain("a page is released while it is mapped", handle, page->addr);
	fake->used_bytes[page->device] -= page->bytes;
	*page = (struct fake_page){0};
	return fake_end(0);
}

int fake_page_map(uint64_t addr, uint64_t bytes, uint64_t handle)
{
	int err = fake_begin_of_process(FAKE_PAGE_MAP);
	struct fake_page *page = err ? NULL : page_of(handle);

	if (!page)
		return fake_end(err ? err : FAKE_INVALID_VALUE);
	if (addr % PAGE || bytes != page->bytes || addr < FAKE_RANGE_BASE ||
	    addr + bytes > fake->next_range || find_page(addr) || page->addr)
		fake_complain("a page is mapped where it can't be", addr, handle);
	page->addr = addr;
	return fake_end(0);
}

int fake_page_unmap(uint64_t addr, uint64_t bytes)
{
	int err = fake_begin_of_process(FAKE_PAGE_UNMAP);
	struct fake_page *page = err ? NULL : find_page(addr);
	size_t i;

	if (!page)
		return fake_end(err ? err : FAKE_INVALID_VALUE);
	if (page->addr != addr || page->bytes != bytes)
		fake_complain("not a whole page is unmapped", addr, bytes);
	for (i = 0; i < fake->works; i++)
		if (!fake_is_over(&fake->work[i]) && fake_touches(&fake->work[i], addr, bytes))
			fake_complain("unmapped while work may touch it", addr,
				      fake->work[i].number);
	forget_names(addr, bytes);
	page->addr = 0;
	page->open = 0;
	return fake_end(0);
}

/* With the lock taken. */
static void open_pages(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	struct fake_page *page;
	uint64_t at;

	for (at = addr; at < addr + bytes; at += PAGE) {
		page = find_page(at);
		if (!page)
			fake_complain("access to where no page is", at, 0);
		else
			page->open |= 1u << ordinal;
	}
}

int fake_range_open(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	int err = fake_begin_of_process(FAKE_RANGE_OPEN);

	if (!err)
		open_pages(ordinal, addr, bytes);
	return fake_end(err);
}

int fake_range_open_ungated(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	int err = fake_begin_of_process_ungated(FAKE_RANGE_OPEN);

	if (!err)
		open_pages(ordinal, addr, bytes);
	return fake_end(err);
}

bool fake_is_open_to(uint32_t device, uint64_t addr)
{
	const struct fake_page *page;
	bool is;

	(void)pthread_mutex_lock(&fake->lock);
	page = find_page(addr);
	is = page && page->open >> device & 1;
	(void)pthread_mutex_unlock(&fake->lock);
	return is;
}

int fake_mem_info(uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total)
{
	int err = fake_begin(FAKE_MEM_INFO, ctx);

	if (err)
		return fake_end(err);
	*ret_total = fake->limit_bytes;
	*ret_free = fake->limit_bytes - fake->used_bytes[fake_find_context(ctx)->device];
	return fake_end(0);
}

struct fake_memory fake_memory_of(uint64_t addr)
{
	struct fake_memory found = {0};
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	for (i = 0; i < fake->memories; i++)
		if (addr >= fake->memory[i].addr &&
		    addr - fake->memory[i].addr < fake->memory[i].bytes)
			found = fake->memory[i];
	(void)pthread_mutex_unlock(&fake->lock);
	return found;
}
