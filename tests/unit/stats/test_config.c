/* SPDX-License-Identifier: MIT */
#include "stats/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/nearest.h"
#include "stats/text.h"
#include "tests/unit/cmocka_all.h"

#define HEARD_BYTES 4096

struct heard {
	char text[HEARD_BYTES]; /* the messages, a line each */
	unsigned count;
};

static void hear(void *arg, const char *text)
{
	struct heard *heard = arg;
	size_t used = strlen(heard->text);

	(void)snprintf(heard->text + used, sizeof(heard->text) - used, "%s\n", text);
	heard->count++;
}

static void read_text(struct cm_config *config, const char *text, struct heard *heard)
{
	memset(heard, 0, sizeof(*heard));
	cm_config_init(config);
	cm_config_parse(config, CM_CONF_VARIABLE, text, hear, heard);
}

static enum cm_option find(const char *name)
{
	struct cm_config config;
	struct cm_option_row row;
	uint32_t i;

	cm_config_init(&config);
	for (i = 0; i < CM_OPTION_COUNT; i++) {
		cm_config_row(&config, i, &row);
		if (!strcmp(row.name, name))
			break;
	}
	return i;
}

CM_TEST(defaults_are_pytorchs)
{
	struct cm_config config;
	int i;

	cm_config_init(&config);
	assert_int_equal(config.max_split_size_mb, CM_UNLIMITED);
	assert_int_equal(config.max_non_split_rounding_mb, 20);
	assert_int_equal(config.large_segment_size_mb, 20);
	assert_true(config.garbage_collection_threshold == 0.0);
	assert_true(config.per_process_memory_fraction == 1.0);
	for (i = 0; i < CM_DIVISION_SLOTS; i++)
		assert_int_equal(config.roundup_power2_divisions[i], 0);
	assert_int_equal(config.mode, CM_MODE_CACHE);
	assert_int_equal(config.reuse, CM_REUSE_BARRIER);
	assert_int_equal(config.sync, CM_SYNC_AUTO);
	assert_int_equal(config.placement, CM_PLACEMENT_AUTO);
	assert_int_equal(config.events, 65536);
	assert_int_equal(config.stacks, CM_CONTEXT_NONE);
	assert_int_equal(config.stack_frames, CM_STACKS_ALL);
	assert_int_equal(config.stack_depth, 64);
	assert_true(config.control);
	assert_true(config.warn);
	assert_false(config.strict);
	assert_string_equal(config.region_dir, "/dev/shm");
	assert_int_equal(config.errors, 0);
}

/* What a text makes of one option, in the words of its row. */
static const struct accepted {
	const char *text;
	const char *option;
	const char *value;
} accepted[] = {
	{"mode:cache", "mode", "cache"},
	{"mode:stats", "mode", "stats"},
	{"mode:off", "mode", "off"},
	{"reuse:barrier", "reuse", "barrier"},
	{"reuse:grow", "reuse", "grow"},
	{"reuse:wait", "reuse", "wait"},
	{"sync:epoch", "sync", "epoch"},
	{"neighbours:off", "peer_processes", "off"},
	{"sync:free", "sync", "free"},
	{"placement:exact", "placement", "exact"},
	{"placement:split", "placement", "split"},
	{"log:off", "log", "off"},
	{"log:info", "log", "info"},
	/* PyTorch's spellings of a boolean, and ours */
	{"control:off", "control", "off"},
	{"control:False", "control", "off"},
	{"control:false", "control", "off"},
	{"control:0", "control", "off"},
	{"control:off,control:on", "control", "on"},
	{"strict:on", "strict", "on"},
	{"strict:True", "strict", "on"},
	{"strict:true", "strict", "on"},
	{"strict:1", "strict", "on"},
	/* bounds, and both sides of what depends on another option */
	{"max_split_size_mb:20", "max_split_size_mb", "20"},
	{"max_split_size_mb:1099511627776", "max_split_size_mb", "1099511627776"},
	{"max_split_size_mb:64,max_split_size_mb:unlimited", "max_split_size_mb", "unlimited"},
	{"max_split_size_mb:512M", "max_split_size_mb", "512"},
	{"max_split_size_mb:2GiB", "max_split_size_mb", "2048"},
	{"max_split_size_mb:1T", "max_split_size_mb", "1048576"},
	{"max_split_size_mb:20480K", "max_split_size_mb", "20"},
	{"large_segment_size_mb:11", "large_segment_size_mb", "11"},
	{"large_segment_size_mb:11,max_split_size_mb:11", "max_split_size_mb", "11"},
	{"max_split_size_mb:11,large_segment_size_mb:11", "max_split_size_mb", "11"},
	{"large_segment_size_mb:64", "max_non_split_rounding_mb", "64"},
	{"large_segment_size_mb:64,max_non_split_rounding_mb:65", "max_non_split_rounding_mb",
	 "65"},
	{"max_non_split_rounding_mb:20", "max_non_split_rounding_mb", "20"},
	{"garbage_collection_threshold:0.8", "garbage_collection_threshold", "0.8"},
	{"garbage_collection_threshold:.000000001", "garbage_collection_threshold", "0.000000001"},
	{"garbage_collection_threshold:0.999999999", "garbage_collection_threshold", "0.999999999"},
	{"garbage_collection_threshold:0.8,garbage_collection_threshold:off",
	 "garbage_collection_threshold", "off"},
	{"per_process_memory_fraction:0", "per_process_memory_fraction", "0"},
	{"per_process_memory_fraction:0.25", "per_process_memory_fraction", "0.25"},
	{"per_process_memory_fraction:1.0", "per_process_memory_fraction", "1"},
	{"events:0", "events", "0"},
	{"events:1000", "events", "1000"},
	{"events:64Ki", "events", "64Ki"},
	{"events:16777216", "events", "16Mi"},
	{"stacks:state", "stacks", "state"},
	{"stacks:alloc,stack_frames:python", "stack_frames", "python"},
	{"stack_depth:1", "stack_depth", "1"},
	{"stack_depth:256", "stack_depth", "256"},
	{"stack_table_mb:32768", "stack_table_mb", "32768"},
	{"text_table_mb:1", "text_table_mb", "1"},
	{"roundup_power2_divisions:1", "roundup_power2_divisions", "1"},
	{"roundup_power2_divisions:2147483648", "roundup_power2_divisions", "2147483648"},
	{"roundup_power2_divisions:[256:0]", "roundup_power2_divisions", "off"},
	{"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions",
	 "[256:1,512:2,1024:4,>:8]"},
	{"region_dir:/tmp/x:y", "region_dir", "/tmp/x:y"},
	/* the grammar */
	{"", "mode", "cache"},
	{",,", "mode", "cache"},
	{"mode:stats,", "mode", "stats"},
	{" m o d e\t:\nst ats ", "mode", "stats"},
	{"mode:off,mode:stats", "mode", "stats"},
	{"roundup_power2_divisions:[1:2,>:4],mode:stats", "mode", "stats"},
};

CM_TEST(what_is_typed_takes_effect)
{
	struct cm_option_row row;
	struct cm_config config;
	struct heard heard;
	size_t i;

	for (i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		read_text(&config, accepted[i].text, &heard);
		cm_config_row(&config, find(accepted[i].option), &row);
		if (heard.count || config.errors || strcmp(row.value, accepted[i].value) != 0)
			fail_msg("\"%s\": %s is %s, want %s; said: %s", accepted[i].text,
				 accepted[i].option, row.value, accepted[i].value, heard.text);
	}
}

static const struct refused {
	const char *text;
	const char *message; /* after "CUDAMEM_CONF: " */
} refused[] = {
	{"max_splt:512M",
	 "unknown option \"max_splt\" (did you mean \"max_split_size_mb\"?); ignored"},
	{"Mode:off", "unknown option \"Mode\" (did you mean \"mode\"?); ignored"},
	{"xyzzy:1", "unknown option \"xyzzy\"; ignored"},
	{"xyzzy", "unknown option \"xyzzy\"; ignored"},
	{":1", "unknown option \"\"; ignored"},
	{"mode=stats", "\"mode=stats\" has no :value, want cache|stats|off; keeping cache"},
	{"mode", "\"mode\" has no :value, want cache|stats|off; keeping cache"},
	{"mode:", "\"mode:\" has no :value, want cache|stats|off; keeping cache"},
	{"mode:stat", "\"mode:stat\" is not understood, want cache|stats|off; keeping cache"},
	{"mode:stats|off",
	 "\"mode:stats|off\" is not understood, want cache|stats|off; keeping cache"},
	{"mode:off,mode:x", "\"mode:x\" is not understood, want cache|stats|off; keeping off"},
	{"control:yes", "\"control:yes\" is not understood, want on or off; keeping on"},
	{"control:ON", "\"control:ON\" is not understood, want on or off; keeping on"},
	{"max_split_size_mb:19", "\"max_split_size_mb:19\" is out of range, want unlimited, or 20 "
				 "to 1099511627776 MiB; keeping unlimited"},
	{"max_split_size_mb:1099511627777",
	 "\"max_split_size_mb:1099511627777\" is out of range, want unlimited, or 20 to "
	 "1099511627776 MiB; keeping unlimited"},
	{"max_split_size_mb:18446744073709551616",
	 "\"max_split_size_mb:18446744073709551616\" is out of range, want unlimited, or 20 to "
	 "1099511627776 MiB; keeping unlimited"},
	{"max_split_size_mb:-1", "\"max_split_size_mb:-1\" is not understood, want unlimited, or "
				 "20 to 1099511627776 MiB; keeping unlimited"},
	{"max_split_size_mb:20M8", "\"max_split_size_mb:20M8\" is not understood, want unlimited, "
				   "or 20 to 1099511627776 MiB; keeping unlimited"},
	{"max_split_size_mb:20481K",
	 "\"max_split_size_mb:20481K\" is not understood, want unlimited, or 20 to 1099511627776 "
	 "MiB; keeping unlimited"},
	{"max_split_size_mb:63,large_segment_size_mb:64",
	 "\"max_split_size_mb:63\" is out of range, want unlimited, or 64 to 1099511627776 MiB; "
	 "keeping unlimited"},
	{"max_non_split_rounding_mb:19", "\"max_non_split_rounding_mb:19\" is out of range, want "
					 "20 to 1099511627776 MiB; keeping 20"},
	{"large_segment_size_mb:10", "\"large_segment_size_mb:10\" is out of range, want 11 to "
				     "1099511627776 MiB; keeping 20"},
	{"garbage_collection_threshold:0",
	 "\"garbage_collection_threshold:0\" is out of range, want off, or more than 0 and less "
	 "than 1; keeping off"},
	{"garbage_collection_threshold:1.0",
	 "\"garbage_collection_threshold:1.0\" is out of range, want off, or more than 0 and less "
	 "than 1; keeping off"},
	{"garbage_collection_threshold:0,8",
	 "\"garbage_collection_threshold:0\" is out of range, want off, or more than 0 and less "
	 "than 1; keeping off\nCUDAMEM_CONF: unknown option \"8\"; ignored"},
	{"per_process_memory_fraction:1.01", "\"per_process_memory_fraction:1.01\" is out of "
					     "range, want 0 to 1; keeping 1"},
	{"per_process_memory_fraction:1e-3", "\"per_process_memory_fraction:1e-3\" is not "
					     "understood, want 0 to 1; keeping 1"},
	{"per_process_memory_fraction:.", "\"per_process_memory_fraction:.\" is not understood, "
					  "want 0 to 1; keeping 1"},
	{"stacks:some", "\"stacks:some\" is not understood, want off|state|alloc|all; "
			"keeping off"},
	{"stack_depth:0", "\"stack_depth:0\" is out of range, want 1 to 256; keeping 64"},
	{"stack_depth:257", "\"stack_depth:257\" is out of range, want 1 to 256; keeping 64"},
	{"text_table_mb:4096",
	 "\"text_table_mb:4096\" is out of range, want 1 to 4095 MiB; keeping 16"},
	{"events:16777217",
	 "\"events:16777217\" is out of range, want 0 to 16777216; keeping 64Ki"},
	{"roundup_power2_divisions:0",
	 "\"roundup_power2_divisions:0\" is out of range, want off, or a power of two, or a list "
	 "like [256:1,512:2,>:8]; keeping off"},
	{"roundup_power2_divisions:3",
	 "\"roundup_power2_divisions:3\" is out of range, want off, or a power of two, or a list "
	 "like [256:1,512:2,>:8]; keeping off"},
	{"roundup_power2_divisions:[256:3]",
	 "\"roundup_power2_divisions:[256:3]\" is out of range, want off, or a power of two, or a "
	 "list like [256:1,512:2,>:8]; keeping off"},
	{"roundup_power2_divisions:[3:4]",
	 "\"roundup_power2_divisions:[3:4]\" is out of range, want off, or a power of two, or a "
	 "list like [256:1,512:2,>:8]; keeping off"},
	{"roundup_power2_divisions:[256:1,512:2",
	 "\"roundup_power2_divisions:[256:1,512:2\" is not understood, want off, or a power of "
	 "two, or a list like [256:1,512:2,>:8]; keeping off"},
	{"roundup_power2_divisions:[]",
	 "\"roundup_power2_divisions:[]\" is not understood, want off, or a power of two, or a "
	 "list like [256:1,512:2,>:8]; keeping off"},
	{"region_dir:shm", "\"region_dir:shm\" is not understood, want an absolute path of at "
			   "most 191 characters; keeping /dev/shm"},
	{"mode:\x1b[2J", "\"mode:?[2J\" is not understood, want cache|stats|off; keeping cache"},
	{"mode:\xc2\x9b\x9b\xc3\xa4",
	 "\"mode:??\xc3\xa4\" is not understood, want cache|stats|off; keeping cache"},
};

CM_TEST(a_mistake_says_what_is_wanted_and_what_is_kept)
{
	static const char prefix[] = "CUDAMEM_CONF: ";
	struct cm_config config;
	struct heard heard;
	char want[1024];
	size_t i;

	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		read_text(&config, refused[i].text, &heard);
		(void)snprintf(want, sizeof(want), "%s%s\n", prefix, refused[i].message);
		if (strcmp(heard.text, want) != 0 || config.errors != heard.count)
			fail_msg("\"%s\": said %swant %s", refused[i].text, heard.text, want);
	}
}

CM_TEST(a_refused_value_leaves_the_field_alone)
{
	struct cm_config config;
	struct heard heard;

	read_text(&config, "roundup_power2_divisions:4,roundup_power2_divisions:[1:8,2:3]", &heard);
	assert_int_equal(config.roundup_power2_divisions[0], 4);
	assert_int_equal(config.roundup_power2_divisions[15], 4);
	assert_int_equal(heard.count, 1);
}

CM_TEST(a_long_text_is_cut_in_messages)
{
	char text[400] = "mode:";
	struct cm_config config;
	struct heard heard;

	memset(text + 5, 'x', sizeof(text) - 6);
	read_text(&config, text, &heard);
	assert_int_equal(heard.count, 1);
	assert_non_null(strstr(heard.text, "xxx...\" is too long, want at most 255 characters"));
	text[255] = '\0';
	read_text(&config, text, &heard);
	assert_non_null(strstr(heard.text, "xxx...\" is not understood"));
}

/* Slots by PyTorch's rules: the first boundary fills downwards, '>' fills upwards, others stand. */
static const struct slots {
	const char *text;
	uint32_t want[CM_DIVISION_SLOTS];
} slots[] = {
	{"4", {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}},
	{"[1:2]", {2}},
	{"[4:2]", {2, 2, 2}},
	{"[4:2,16:8]", {2, 2, 2, 0, 8}},
	{"[4:2,16:8,>:1]", {2, 2, 2, 0, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	{"[>:8]", {0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
	{"[32768:2]", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
	{"[1048576:2]", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
	{"[16:8,4:2]", {8, 8, 2, 8, 8}},
};

CM_TEST(divisions_fill_the_slots_that_pytorch_fills)
{
	char text[128];
	struct cm_config config;
	struct heard heard;
	size_t i;
	int slot;

	for (i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		(void)snprintf(text, sizeof(text), "roundup_power2_divisions:%s", slots[i].text);
		read_text(&config, text, &heard);
		for (slot = 0; slot < CM_DIVISION_SLOTS; slot++)
			if (config.roundup_power2_divisions[slot] != slots[i].want[slot])
				fail_msg("%s: slot %d is %u, want %u; %s", slots[i].text, slot,
					 config.roundup_power2_divisions[slot], slots[i].want[slot],
					 heard.text);
	}
}

CM_TEST(a_printed_list_reads_back_as_itself)
{
	struct cm_config config, again;
	struct cm_option_row row;
	char text[160];
	struct heard heard;
	size_t i;

	for (i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		(void)snprintf(text, sizeof(text), "roundup_power2_divisions:%s", slots[i].text);
		read_text(&config, text, &heard);
		cm_config_row(&config, CM_OPTION_roundup_power2_divisions, &row);
		(void)snprintf(text, sizeof(text), "roundup_power2_divisions:%s", row.value);
		read_text(&again, text, &heard);
		if (memcmp(config.roundup_power2_divisions, again.roundup_power2_divisions,
			   sizeof(config.roundup_power2_divisions)) != 0)
			fail_msg("%s was printed as %s", slots[i].text, row.value);
	}
}

CM_TEST(defaults_read_back_as_themselves)
{
	struct cm_config config, plain;
	struct cm_option_row row;
	struct heard heard;
	char text[256];
	uint32_t i;

	cm_config_init(&plain);
	for (i = 0; i < CM_OPTION_COUNT; i++) {
		cm_config_row(&plain, i, &row);
		assert_string_equal(row.value, row.fallback);
		assert_string_equal(row.origin, "default");
		assert_true(strlen(row.help) > 0);
		(void)snprintf(text, sizeof(text), "%s:%s", row.name, row.fallback);
		read_text(&config, text, &heard);
		assert_int_equal(heard.count, 0);
		cm_config_row(&config, i, &row);
		assert_string_equal(row.value, row.fallback);
		assert_string_equal(row.origin, "environment");
	}
}

/* Each option has a line "*name* (..., default *value*)" in libcudamem(7), and no other has. */
CM_TEST(the_manual_knows_every_option_and_default)
{
	struct cm_config config;
	struct cm_option_row row;
	char line[1024], name[64], fallback[80];
	unsigned found = 0;
	FILE *manual = fopen(MANUAL, "r");

	cm_config_init(&config);
	assert_non_null(manual);
	while (fgets(line, sizeof(line), manual)) {
		if (sscanf(line, "*%63[a-z0-9_]* (%*[^\n]", name) != 1 ||
		    !strstr(line, "; default "))
			continue;
		found++;
		if (find(name) == CM_OPTION_COUNT)
			fail_msg("%s is in the manual, but no option", name);
		cm_config_row(&config, find(name), &row);
		(void)snprintf(fallback, sizeof(fallback), "; default *%s*", row.fallback);
		if (!strstr(line, fallback))
			fail_msg("the manual says not \"%s\" but %s", fallback, line);
	}
	(void)fclose(manual);
	assert_int_equal(found, CM_OPTION_COUNT);
}

CM_TEST(warn_off_silences_wherever_it_stands)
{
	struct cm_config config;
	struct heard heard;

	read_text(&config, "nonsense:1,warn:off,mode:x", &heard);
	assert_int_equal(heard.count, 0);
	assert_int_equal(config.errors, 2);
}

static const char *value_of_variable;

static char *get_variable(const char *name)
{
	assert_string_equal(name, CM_CONF_VARIABLE);
	return (char *)value_of_variable;
}

CM_TEST(a_misspelt_variable_is_told)
{
	static char *environment[] = {
		(char *)"CUDAMEM_CONF=mode:stats", (char *)"CUDAMEM_COMF=mode:off",
		(char *)"CUDAMEM_MAX_SPLIT=1",     (char *)"CUDA_VISIBLE_DEVICES=0",
		(char *)"XCUDAMEM_CONF=1",         NULL,
	};
	struct heard heard = {0};
	struct cm_config config;

	value_of_variable = "mode:stats";
	cm_config_read(&config, get_variable, environment, hear, &heard);
	assert_int_equal(config.mode, CM_MODE_STATS);
	assert_int_equal(config.origin[CM_OPTION_mode], CM_ORIGIN_ENVIRONMENT);
	assert_string_equal(heard.text,
			    "CUDAMEM_COMF: unknown variable (did you mean CUDAMEM_CONF?); ignored\n"
			    "CUDAMEM_MAX_SPLIT: unknown variable; ignored\n");
	assert_int_equal(config.errors, 2);
}

CM_TEST(no_variable_means_defaults)
{
	struct cm_config config, plain;

	value_of_variable = NULL;
	cm_config_read(&config, get_variable, NULL, NULL, NULL);
	cm_config_init(&plain);
	assert_memory_equal(&config, &plain, sizeof(config));
}

CM_TEST(nearest_name_forgives_few_slips)
{
	static const char *const names[] = {"show", "stat", "snapshot", "max_split_size_mb"};
	static const struct {
		const char *typed;
		const char *want;
	} cases[] = {
		{"snapsht", "snapshot"},
		{"snaphsot", "snapshot"},
		{"sow", "show"},
		{"stta", "stat"},
		{"snap", "snapshot"},
		{"max_split", "max_split_size_mb"},
		{"quit", NULL},
		{"", NULL},
		{"completely_else", NULL},
	};
	const char *got;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		got = cm_nearest_name(cases[i].typed, names, 4);
		if (got != cases[i].want &&
		    (!got || !cases[i].want || strcmp(got, cases[i].want) != 0))
			fail_msg("\"%s\": %s, want %s", cases[i].typed, got ? got : "none",
				 cases[i].want ? cases[i].want : "none");
	}
}

CM_TEST(what_is_appended_is_cut_to_the_room)
{
	char text[10] = ".........";
	size_t used = 0;

	used = cm_text_append(text, 8, used, "%s", "free");
	used = cm_text_append(text, 8, used, " %d", 12);
	assert_int_equal(used, 7);
	assert_string_equal(text, "free 12");
	used = cm_text_append(text, 8, 4, "%s", "abcd");
	assert_int_equal(used, 7);
	assert_string_equal(text, "freeabc");
	assert_int_equal(cm_text_append(text, 8, used, "%s", "x"), 7);
	assert_string_equal(text, "freeabc");
	assert_int_equal(text[8], '.');
}
