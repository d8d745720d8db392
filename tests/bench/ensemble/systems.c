/* SPDX-License-Identifier: MIT */
#include "systems.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "allocator/cache.h"
#include "card.h"
#include "program.h"
#include "stats/config.h"
#include "stats/region.h"
#include "tests/bench/torch_pages.h"
#include "tests/bench/torch_rules.h"

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* --- the library ---------------------------------------------------------------------------- */

static struct {
	struct cm_region *region;
	struct cm_cache *cache;
	struct cm_heap *heap[PROGRAM_CONTEXTS_MAX];
	uint32_t contexts;
} library;

static void say(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "ensemble: %s\n", text);
}

/* As the library's start does it, as far as these options go. */
static int read_conf(const char *conf, struct cm_policy *ret_policy)
{
	struct cm_config config;

	cm_config_init(&config);
	cm_config_parse(&config, CM_CONF_VARIABLE, conf, say, NULL);
	if (config.errors)
		return -1;
	cm_policy_init(ret_policy);
	if (config.placement == CM_PLACEMENT_EXACT)
		ret_policy->placement = CM_PLACEMENT_EXACT;
	ret_policy->expandable_segments = config.expandable_segments;
	ret_policy->exchange = config.exchange;
	ret_policy->large_segment_size = config.large_segment_size_mb * MIB;
	return 0;
}

static void library_close(void)
{
	cm_cache_destroy(library.cache);
	cm_region_abandon(library.region);
	library.cache = NULL;
	library.region = NULL;
}

static int library_open(const struct system *system, uint64_t card, uint32_t contexts)
{
	const struct cm_region_params region = {.backing = CM_BACKING_PRIVATE};
	struct cm_context_info info = {.can = CM_CAN_PAGES | CM_CAN_CTX_EVENTS,
				       .total_bytes = card,
				       .free_bytes = card,
				       .name = "card"};
	struct cm_cache_params params = {.ops = card_ops()};
	struct cm_policy policy;
	uint32_t i;

	if (read_conf(system->conf, &policy) || cm_region_create(&region, &library.region))
		return -1;
	params.policy = &policy;
	params.region = library.region;
	if (cm_cache_create(&params, &library.cache))
		goto err_close;
	library.contexts = contexts;
	for (i = 0; i < contexts; i++) {
		info.ctx = i + 1;
		if (cm_cache_add_heap(library.cache, &info, &library.heap[i]))
			goto err_close;
	}
	return 0;
err_close:
	library_close();
	return -1;
}

/* What is not the library's business goes to the driver, as its hooks do. */
static void *library_alloc(uint64_t bytes, uint32_t stream, uint32_t context)
{
	uint64_t addr;
	int err = cm_cache_alloc(library.cache, library.heap[context], bytes, &addr);

	(void)stream;
	if (err < 0)
		err = card_alloc(bytes, &addr);
	return err ? NULL : pointer(addr);
}

static void library_free(void *block)
{
	uint64_t addr = (uintptr_t)block, forward;

	if (cm_cache_free(library.cache, addr, &forward) == -ENOENT)
		card_free(addr);
}

static void library_before_work(void)
{
	if (cm_cache_wants_close(library.cache))
		cm_cache_before_work(library.cache);
}

/* As the hooks of cuCtxSynchronize do it. */
static void library_wait(void)
{
	struct cm_program_wait wait[PROGRAM_CONTEXTS_MAX];
	uint32_t i;

	for (i = 0; i < library.contexts; i++)
		wait[i] = cm_cache_begin_wait(library.cache, i + 1);
	card_wait();
	for (i = 0; i < library.contexts; i++)
		cm_cache_end_wait(&wait[i]);
}

/* --- the driver, and PyTorch's rules --------------------------------------------------------- */

static int plain_open(const struct system *system, uint64_t card, uint32_t contexts)
{
	(void)system;
	(void)card;
	(void)contexts;
	return 0;
}

static void driver_close(void)
{
}

static void *driver_alloc(uint64_t bytes, uint32_t stream, uint32_t context)
{
	uint64_t addr;

	(void)stream;
	(void)context;
	return card_alloc(bytes, &addr) ? NULL : pointer(addr);
}

static void driver_free(void *block)
{
	card_free((uintptr_t)block);
}

/* Each context has streams of its own. */
static void *torch_alloc(uint64_t bytes, uint32_t stream, uint32_t context)
{
	return torch_rules_alloc(bytes, context * PROGRAM_STREAMS_MAX + stream);
}

static void *torch_on_pages(uint64_t bytes, uint32_t stream, uint32_t context)
{
	return torch_pages_alloc(bytes, context * PROGRAM_STREAMS_MAX + stream);
}

/* A bad allocator on purpose, for the test of the judge: it takes a quarter more than is asked for,
 * and asks the driver again and again. */
static void *planted_alloc(uint64_t bytes, uint32_t stream, uint32_t context)
{
	uint64_t tried;

	if (!card_alloc(bytes, &tried))
		card_free(tried);
	return driver_alloc(bytes + bytes / 4, stream, context);
}

#define LIBRARY                                                               \
	.open = library_open, .close = library_close, .alloc = library_alloc, \
	.free = library_free, .before_work = library_before_work, .wait = library_wait

static const struct system systems[] = {
	{.name = "default", .help = "the library as it comes", LIBRARY, .conf = ""},
	{.name = "no-exchange", .help = "with exchange:off", LIBRARY, .conf = "exchange:off"},
	{.name = "pages",
	 .help = "with expandable_segments:True",
	 LIBRARY,
	 .conf = "expandable_segments:True"},
	{.name = "exact", .help = "with placement:exact", LIBRARY, .conf = "placement:exact"},
	{.name = "driver",
	 .help = "cuMemAlloc and cuMemFree",
	 .open = plain_open,
	 .close = driver_close,
	 .alloc = driver_alloc,
	 .free = driver_free,
	 .wait = card_wait},
	{.name = "torch",
	 .help = "PyTorch's rules",
	 .open = plain_open,
	 .close = torch_rules_release,
	 .alloc = torch_alloc,
	 .free = torch_rules_free,
	 .wait = card_wait},
	{.name = "torch-pages",
	 .help = "PyTorch's rules with expandable segments",
	 .open = plain_open,
	 .close = torch_pages_release,
	 .alloc = torch_on_pages,
	 .free = torch_pages_free,
	 .wait = card_wait},
	{.name = "planted",
	 .help = "a bad allocator: the judge must notice",
	 .open = plain_open,
	 .close = driver_close,
	 .alloc = planted_alloc,
	 .free = driver_free,
	 .wait = card_wait},
};

const struct system *system_at(size_t i)
{
	return i < sizeof(systems) / sizeof(systems[0]) ? &systems[i] : NULL;
}

const struct system *system_find(const char *name)
{
	size_t i;

	for (i = 0; system_at(i); i++)
		if (!strcmp(system_at(i)->name, name))
			return system_at(i);
	return NULL;
}
