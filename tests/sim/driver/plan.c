/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cudasim.h"

struct sim_plan sim_plan;

static bool parse_number(const char *text, const char **ret_end, uint64_t *ret_number)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	*ret_end = end;
	return errno == 0;
}

/* A number with one of the units behind it; the first unit stands for none as well. */
struct unit {
	const char *name;
	uint64_t factor;
};

static bool parse_unit(const char *text, const struct unit *units, uint64_t *ret_number)
{
	const char *end;
	uint64_t number;

	if (!parse_number(text, &end, &number))
		return false;
	for (; units->name; units++) {
		if (strcmp(end, units->name) == 0)
			return !__builtin_mul_overflow(number, units->factor, ret_number);
	}
	return false;
}

static bool parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1},           {"K", 1u << 10},          {"M", 1u << 20},
		{"G", 1u << 30},   {"T", (uint64_t)1 << 40}, {"KiB", 1u << 10},
		{"MiB", 1u << 20}, {"GiB", 1u << 30},        {"TiB", (uint64_t)1 << 40},
		{NULL, 0},
	};

	return parse_unit(text, units, ret_bytes);
}

bool sim_plan_parse_time(const char *text, uint64_t *ret_ns)
{
	static const struct unit units[] = {
		{"ns", 1}, {"", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0},
	};

	return parse_unit(text, units, ret_ns);
}

/* Beyond it the units of a card could not be counted: vram.c. */
#define MEMORY_MAX ((uint64_t)2 << 40)

static bool set_memory(const char *value)
{
	uint64_t bytes;

	if (!parse_bytes(value, &bytes) || bytes >= MEMORY_MAX)
		return false;
	sim_plan.memory = bytes;
	return true;
}

static bool parse_switch(const char *text, bool *ret_on)
{
	if (strcmp(text, "on") && strcmp(text, "off"))
		return false;
	*ret_on = strcmp(text, "on") == 0;
	return true;
}

static bool parse_int(const char *text, int least, int most, int *ret_number)
{
	const char *end;
	uint64_t number;

	if (!parse_number(text, &end, &number) || *end || number < (uint64_t)least ||
	    number > (uint64_t)most)
		return false;
	*ret_number = (int)number;
	return true;
}

static bool name_is(const char *name, size_t length, const char *text)
{
	return strlen(name) == length && memcmp(name, text, length) == 0;
}

/* The calls of that name, exported or base: how many of them, the first through ret_call. */
static unsigned find_calls(const char *text, size_t length, enum sim_call *ret_calls)
{
	unsigned count = 0;

	for (unsigned i = 0; i < SIM_CALL_COUNT; i++) {
		if (name_is(sim_calls[i].name, length, text))
			ret_calls[count++] = (enum sim_call)i;
	}
	for (unsigned i = 0; count == 0 && i < SIM_CALL_COUNT; i++) {
		if (name_is(sim_calls[i].base, length, text))
			ret_calls[count++] = (enum sim_call)i;
	}
	for (unsigned i = 0; count == 1 && i < SIM_CALL_COUNT; i++) {
		if (i != (unsigned)ret_calls[0] && name_is(sim_calls[i].base, length, text))
			ret_calls[count++] = (enum sim_call)i;
	}
	return count;
}

static bool add_fault(enum sim_call call, const char *number, bool waits)
{
	struct sim_fault *fault = &sim_plan.faults[sim_plan.fault_count];
	int code = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t at;

	if (sim_plan.fault_count == SIM_MAX_FAULTS || !parse_number(number, &number, &at) ||
	    at == 0)
		return false;
	if (*number == '=' && !parse_int(number + 1, 1, CUDA_ERROR_UNKNOWN, &code))
		return false;
	if (*number && *number != '=')
		return false;
	if (waits && !sim_plan.fault_count)
		return false;
	*fault = (struct sim_fault){.call = call, .at = at, .code = (CUresult)code, .waits = waits};
	sim_plan.fault_count++;
	return true;
}

/* NAME@N or NAME@N=CODE. */
static bool parse_fault(const char *text, bool waits)
{
	enum sim_call calls[SIM_CALL_COUNT];
	const char *at = strchr(text, '@');

	return at && find_calls(text, (size_t)(at - text), calls) &&
	       add_fault(calls[0], at + 1, waits);
}

static bool set_latency(const char *name, size_t length, const char *value)
{
	enum sim_call calls[SIM_CALL_COUNT];
	unsigned count = find_calls(name, length, calls);
	uint64_t ns;

	if (!count || !sim_plan_parse_time(value, &ns))
		return false;
	for (unsigned i = 0; i < count; i++)
		sim_plan.latency_ns[calls[i]] = ns;
	return true;
}

static bool set_all_latencies(const char *value)
{
	uint64_t ns;

	if (!sim_plan_parse_time(value, &ns))
		return false;
	for (unsigned i = 0; i < SIM_CALL_COUNT; i++)
		sim_plan.latency_ns[i] = ns;
	return true;
}

static bool set_time(const char *value)
{
	if (strcmp(value, "real") && strcmp(value, "virtual"))
		return false;
	sim_plan.real_time = strcmp(value, "real") == 0;
	return true;
}

static bool set_card(const char *value)
{
	if (!*value || strlen(value) >= sizeof(sim_plan.card))
		return false;
	strcpy(sim_plan.card, value);
	return true;
}

static bool set_check(const char *value)
{
	static const char *const names[] = {
		[SIM_CHECK_OFF] = "off",
		[SIM_CHECK_RECORD] = "record",
		[SIM_CHECK_STOP] = "stop",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			sim_plan.check = (enum sim_check)i;
			return true;
		}
	}
	return false;
}

bool sim_plan_set(const char *word)
{
	const char *colon = strchr(word, ':');
	size_t length = colon ? (size_t)(colon - word) : 0;
	const char *value = colon ? colon + 1 : NULL;

	if (!colon)
		return false;
	if (name_is("devices", length, word))
		return parse_int(value, 0, SIM_MAX_DEVICES, &sim_plan.devices);
	if (name_is("memory", length, word))
		return set_memory(value);
	if (name_is("context", length, word))
		return parse_bytes(value, &sim_plan.context);
	if (name_is("card", length, word))
		return set_card(value);
	if (name_is("version", length, word))
		return parse_int(value, 1000, 999999, &sim_plan.version);
	if (name_is("mig", length, word))
		return parse_switch(value, &sim_plan.mig);
	if (name_is("abilities", length, word))
		return parse_switch(value, &sim_plan.abilities);
	if (name_is("pageable", length, word))
		return parse_switch(value, &sim_plan.pageable);
	if (name_is("time", length, word))
		return set_time(value);
	if (name_is("guard", length, word))
		return parse_switch(value, &sim_plan.guard);
	if (name_is("teardown", length, word))
		return parse_switch(value, &sim_plan.teardown);
	if (name_is("peers", length, word))
		return parse_switch(value, &sim_plan.peers);
	if (name_is("check", length, word))
		return set_check(value);
	if (name_is("frames", length, word))
		return parse_int(value, 0, SIM_MAX_FRAMES, &sim_plan.frames);
	if (name_is("kernel", length, word))
		return sim_plan_parse_time(value, &sim_plan.kernel_ns);
	if (name_is("copy", length, word))
		return sim_plan_parse_time(value, &sim_plan.copy_ns);
	if (name_is("poll", length, word))
		return sim_plan_parse_time(value, &sim_plan.poll_ns);
	if (name_is("bandwidth", length, word))
		return parse_bytes(value, &sim_plan.copy_bandwidth);
	if (name_is("latency", length, word))
		return set_all_latencies(value);
	if (name_is("fail", length, word))
		return parse_fault(value, false);
	if (name_is("then", length, word))
		return parse_fault(value, true);
	if (name_is("failall", length, word))
		return add_fault(SIM_CALL_COUNT, value, false);
	return set_latency(word, length, value);
}

void sim_plan_read(const char *text)
{
	sim_plan = (struct sim_plan){
		.devices = 1,
		.memory = (uint64_t)16 << 30,
		.version = CUDASIM_VERSION,
		.guard = true,
		.teardown = true,
		.peers = true,
		.frames = 8,
		.kernel_ns = 10000,
		.copy_ns = 1000,
		.poll_ns = 1000,
		.copy_bandwidth = (uint64_t)20 << 30,
	};
	while (text && *text) {
		char word[512];
		size_t length = strcspn(text, ",");

		if (length >= sizeof(word))
			length = sizeof(word) - 1;
		memcpy(word, text, length);
		word[length] = '\0';
		if (length && !sim_plan_set(word))
			fprintf(stderr, "cudasim: CUDASIM: '%s' not understood, left out\n", word);
		text += strcspn(text, ",");
		text += *text == ',';
	}
}
