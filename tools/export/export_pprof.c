/* SPDX-License-Identifier: MIT */
/*
 * A pprof profile with the four sample types of Go's heap profiles: what was allocated during the
 * events, and what is allocated at the end, as counts and bytes, by stack and device.
 *
 * Field numbers are those of pprof's public profile.proto.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export.h"
#include "tools/export/protobuf.h"
#include "tools/output/gzip.h"
#include "tools/snapshot/history.h"
#include "tools/snapshot/lines.h"

#if CM_HAVE_ZLIB
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NS = 9,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_DEFAULT_TYPE = 14,
	TYPE_NAME = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_TEXT = 2,
	LOCATION_ID = 1,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_NUMBER = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILE = 4,
};

#define VALUES 4

struct writer {
	const struct cm_snapshot *snapshot;
	struct cm_protobuf profile, inner, deeper;
	struct cm_intern strings; /* 0 is the empty string */
	bool failed;
};

static uint64_t string_of(struct writer *writer, const char *text)
{
	const uint32_t number = cm_intern_text(&writer->strings, text);

	writer->failed |= number == CM_INTERN_NONE;
	return number;
}

static void put_type(struct writer *writer, uint32_t field, const char *name, const char *unit)
{
	cm_protobuf_clear(&writer->inner);
	cm_protobuf_number(&writer->inner, TYPE_NAME, string_of(writer, name));
	cm_protobuf_number(&writer->inner, TYPE_UNIT, string_of(writer, unit));
	cm_protobuf_message(&writer->profile, field, &writer->inner);
}

static void put_label(struct writer *writer, const char *key, const char *text)
{
	cm_protobuf_clear(&writer->deeper);
	cm_protobuf_number(&writer->deeper, LABEL_KEY, string_of(writer, key));
	cm_protobuf_number(&writer->deeper, LABEL_TEXT, string_of(writer, text));
	cm_protobuf_message(&writer->inner, SAMPLE_LABEL, &writer->deeper);
}

/* Locations have the numbers of the frames plus 1; one more location stands for an unknown
 * stack. */
static uint64_t location_unknown(const struct writer *writer)
{
	return writer->snapshot->frames + (uint64_t)1;
}

static int put_sample(struct writer *writer, const struct cm_sum *sum,
		      const struct cm_snap_device *device)
{
	const struct cm_snapshot *snapshot = writer->snapshot;
	const struct cm_snap_stack *stack = &snapshot->stack[sum->stack];
	const uint64_t values[VALUES] = {sum->count[CM_MEASURE_ALLOCATED],
					 sum->bytes[CM_MEASURE_ALLOCATED],
					 sum->count[CM_MEASURE_LIVE], sum->bytes[CM_MEASURE_LIVE]};
	uint64_t *locations = calloc(stack->count + (size_t)1, sizeof(*locations));
	char text[32];
	uint32_t i;

	if (!locations)
		return -ENOMEM;
	for (i = 0; i < stack->count; i++)
		locations[i] = snapshot->frame_list[stack->first + i] + (uint64_t)1;
	if (!stack->count)
		locations[0] = location_unknown(writer);
	cm_protobuf_clear(&writer->inner);
	cm_protobuf_packed(&writer->inner, SAMPLE_LOCATION, locations,
			   stack->count ? stack->count : 1, &writer->deeper);
	cm_protobuf_packed(&writer->inner, SAMPLE_VALUE, values, VALUES, &writer->deeper);
	(void)snprintf(text, sizeof(text), "%d", (int)device->ordinal);
	put_label(writer, "device", device->row ? text : "host");
	cm_protobuf_message(&writer->profile, PROFILE_SAMPLE, &writer->inner);
	free(locations);
	return 0;
}

static int put_samples(void *data, const struct cm_snap_device *device, const struct cm_sum *sums,
		       size_t count)
{
	size_t i;
	int err = 0;

	for (i = 0; i < count && !err; i++)
		if (sums[i].count[CM_MEASURE_ALLOCATED] || sums[i].count[CM_MEASURE_LIVE])
			err = put_sample(data, &sums[i], device);
	return err;
}

static void put_location(struct writer *writer, uint64_t id, const struct cm_snap_frame *frame)
{
	cm_protobuf_clear(&writer->inner);
	cm_protobuf_number(&writer->inner, FUNCTION_ID, id);
	cm_protobuf_number(&writer->inner, FUNCTION_NAME, string_of(writer, frame->function));
	cm_protobuf_number(&writer->inner, FUNCTION_SYSTEM_NAME,
			   string_of(writer, frame->function));
	cm_protobuf_number(&writer->inner, FUNCTION_FILE, string_of(writer, frame->file));
	cm_protobuf_message(&writer->profile, PROFILE_FUNCTION, &writer->inner);

	cm_protobuf_clear(&writer->deeper);
	cm_protobuf_number(&writer->deeper, LINE_FUNCTION, id);
	cm_protobuf_number(&writer->deeper, LINE_NUMBER, frame->line);
	cm_protobuf_clear(&writer->inner);
	cm_protobuf_number(&writer->inner, LOCATION_ID, id);
	cm_protobuf_message(&writer->inner, LOCATION_LINE, &writer->deeper);
	cm_protobuf_message(&writer->profile, PROFILE_LOCATION, &writer->inner);
}

static void put_strings(struct writer *writer)
{
	uint32_t i;

	for (i = 0; i < writer->strings.count; i++)
		cm_protobuf_text(&writer->profile, PROFILE_STRING,
				 cm_intern_bytes(&writer->strings, i, NULL));
}

static int put_profile(struct writer *writer)
{
	const struct cm_snapshot *snapshot = writer->snapshot;
	size_t i;
	int err;

	(void)string_of(writer, "");
	put_type(writer, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
	put_type(writer, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
	put_type(writer, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
	put_type(writer, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
	err = cm_sums_each(snapshot, put_samples, writer);
	for (i = 0; i < snapshot->frames; i++)
		put_location(writer, i + 1, &snapshot->frame[i]);
	put_location(writer, location_unknown(writer),
		     cm_stack_caller(snapshot, &snapshot->stack[0]));
	cm_protobuf_number(&writer->profile, PROFILE_TIME_NS, snapshot->image->saved.time_ns);
	put_type(writer, PROFILE_PERIOD_TYPE, "space", "bytes");
	cm_protobuf_number(&writer->profile, PROFILE_PERIOD, 1);
	cm_protobuf_number(&writer->profile, PROFILE_DEFAULT_TYPE,
			   string_of(writer, "inuse_space"));
	put_strings(writer);
	return writer->failed || writer->profile.failed ? -ENOMEM : err;
}

static void put_packed(void *to, const void *bytes, size_t count)
{
	(void)fwrite(bytes, 1, count, to);
}

/* Profiles are exchanged as gzip. */
static int compress_to(const struct cm_protobuf *profile, FILE *file)
{
	struct cm_gzip *gzip = cm_gzip_open(CM_GZIP_FAIR, put_packed, file);

	if (!gzip)
		return -ENOMEM;
	cm_gzip_add(gzip, profile->bytes, profile->count);
	cm_gzip_close(gzip);
	return 0;
}

int cm_export_pprof(const struct cm_source *source, FILE *file)
{
	struct writer writer = {.snapshot = source->snapshot};
	int err;

	cm_intern_init(&writer.strings);
	err = put_profile(&writer);
	if (!err)
		err = compress_to(&writer.profile, file);
	cm_protobuf_fini(&writer.profile);
	cm_protobuf_fini(&writer.inner);
	cm_protobuf_fini(&writer.deeper);
	cm_intern_fini(&writer.strings);
	return err;
}
#else
int cm_export_pprof(const struct cm_source *source, FILE *file)
{
	(void)source;
	(void)file;
	return -ENOSYS;
}
#endif
