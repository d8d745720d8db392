/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/nvtx.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "interpose/stacks/annotation.h"

#define NAME_BYTES 1024

/* Numbers of nvtxTypes.h, which never reuses one for another meaning. */
enum { TABLE_CALLBACKS = 1 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { CORE_PUSH_EX = 8, CORE_PUSH_A, CORE_PUSH_W, CORE_POP };
enum {
	CORE2_PUSH_EX = 4,
	CORE2_POP = 5,
	CORE2_REGISTER_A = 10,
	CORE2_REGISTER_W,
	CORE2_CREATE_A,
	CORE2_CREATE_W,
	CORE2_DESTROY,
};
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE, MESSAGE_REGISTERED };

/* nvtxEventAttributes_t */
struct attributes {
	uint16_t version;
	uint16_t size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved;
	uint64_t payload;
	int32_t message_type;
	union {
		const char *ascii;
		const wchar_t *unicode;
		const char *registered; /* of register_a */
	};
};

typedef void (*any_fn)(void);

/* NvtxExportTableCallbacks */
struct callbacks {
	size_t struct_size;
	int (*get_table)(int module, any_fn ***ret_slots, unsigned int *ret_count);
};

/* Ranges without a domain; no domain handle has this value. */
#define DEFAULT_DOMAIN ((uintptr_t)2)

/* UTF-8, cut at a character's boundary. */
static const char *to_utf8(const wchar_t *wide, char text[NAME_BYTES])
{
	size_t used = 0;

	for (; wide && *wide && used + 5 < NAME_BYTES; wide++) {
		const uint32_t c = (uint32_t)*wide;

		if (c < 0x80) {
			text[used++] = (char)c;
			continue;
		}
		if (c >= 0x10000)
			text[used++] = (char)(0xf0 | (c >> 18 & 7));
		if (c >= 0x800)
			text[used++] = (char)((c >= 0x10000 ? 0x80 : 0xe0) |
					      (c >> 12 & (c >= 0x10000 ? 0x3f : 0xf)));
		text[used++] = (char)((c >= 0x800 ? 0x80 : 0xc0) |
				      (c >> 6 & (c >= 0x800 ? 0x3f : 0x1f)));
		text[used++] = (char)(0x80 | (c & 0x3f));
	}
	text[used] = '\0';
	return text;
}

static int push_attributes(uintptr_t domain, const struct attributes *attributes)
{
	char text[NAME_BYTES];

	if (!attributes || attributes->size < sizeof(*attributes))
		return cm_annotation_push(domain, NULL);
	switch (attributes->message_type) {
	case MESSAGE_ASCII:
	case MESSAGE_REGISTERED:
		return cm_annotation_push(domain, attributes->ascii);
	case MESSAGE_UNICODE:
		return cm_annotation_push(domain, to_utf8(attributes->unicode, text));
	default:
		return cm_annotation_push(domain, NULL);
	}
}

static int push_ex(const struct attributes *attributes)
{
	return push_attributes(DEFAULT_DOMAIN, attributes);
}

static int push_a(const char *name)
{
	return cm_annotation_push(DEFAULT_DOMAIN, name);
}

static int push_w(const wchar_t *name)
{
	char text[NAME_BYTES];

	return cm_annotation_push(DEFAULT_DOMAIN, to_utf8(name, text));
}

static int pop_range(void)
{
	return cm_annotation_pop(DEFAULT_DOMAIN);
}

static int domain_push_ex(void *domain, const struct attributes *attributes)
{
	return push_attributes(domain ? (uintptr_t)domain : DEFAULT_DOMAIN, attributes);
}

static int domain_pop(void *domain)
{
	return cm_annotation_pop(domain ? (uintptr_t)domain : DEFAULT_DOMAIN);
}

/* A handle is a copy of the string and is never freed: NVTX has no call for that. */
static void *register_a(void *domain, const char *text)
{
	(void)domain;
	return text ? strdup(text) : NULL;
}

static void *register_w(void *domain, const wchar_t *wide)
{
	char text[NAME_BYTES];

	(void)domain;
	return wide ? strdup(to_utf8(wide, text)) : NULL;
}

/* A handle is an address that nobody else has. */
static void *domain_create(const void *name)
{
	(void)name;
	return malloc(1);
}

static void domain_destroy(void *domain)
{
	free(domain);
}

struct callback {
	unsigned int id;
	any_fn fn;
};

static void fill_slots(const struct callbacks *callbacks, int module, const struct callback *list,
		       size_t count)
{
	any_fn **slots = NULL;
	unsigned int slot_count = 0;
	size_t i;

	if (!callbacks->get_table(module, &slots, &slot_count) || !slots)
		return;
	for (i = 0; i < count; i++)
		if (list[i].id < slot_count && slots[list[i].id])
			*slots[list[i].id] = list[i].fn;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int InitializeInjectionNvtx2(cm_nvtx_export_fn *get_export_table)
{
	static const struct callback core[] = {
		{CORE_PUSH_EX, (any_fn)push_ex},
		{CORE_PUSH_A, (any_fn)push_a},
		{CORE_PUSH_W, (any_fn)push_w},
		{CORE_POP, (any_fn)pop_range},
	};
	static const struct callback core2[] = {
		{CORE2_PUSH_EX, (any_fn)domain_push_ex}, {CORE2_POP, (any_fn)domain_pop},
		{CORE2_REGISTER_A, (any_fn)register_a},  {CORE2_REGISTER_W, (any_fn)register_w},
		{CORE2_CREATE_A, (any_fn)domain_create}, {CORE2_CREATE_W, (any_fn)domain_create},
		{CORE2_DESTROY, (any_fn)domain_destroy},
	};
	const struct callbacks *callbacks = get_export_table(TABLE_CALLBACKS);

	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !callbacks->get_table)
		return 0;
	fill_slots(callbacks, MODULE_CORE, core, COUNT(core));
	fill_slots(callbacks, MODULE_CORE2, core2, COUNT(core2));
	return 1;
}
