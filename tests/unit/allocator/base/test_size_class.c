/* SPDX-License-Identifier: MIT */
#include "allocator/base/size_class.h"

#include "tests/unit/cmocka_all.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct cm_policy policy_with(uint32_t divisions)
{
	struct cm_policy policy;
	uint32_t i;

	cm_policy_init(&policy);
	for (i = 0; i < CM_DIVISION_SLOTS; i++)
		policy.roundup_power2_divisions[i] = divisions;
	return policy;
}

CM_TEST(a_size_is_rounded_to_512_or_to_a_division_of_its_power_of_two)
{
	static const struct {
		uint64_t bytes;
		uint32_t divisions;
		uint64_t size;
	} cases[] = {
		{1, 0, 512},
		{511, 0, 512},
		{512, 0, 512},
		{513, 0, 1024},
		{MIB - 1, 0, MIB},
		{MIB + 1, 0, MIB + 512},
		{CM_REQUEST_MAX - 1, 0, CM_REQUEST_MAX},
		{CM_REQUEST_MAX, 0, CM_REQUEST_MAX},
		/* one division is none */
		{2049, 1, 2560},
		/* up to 512 bytes a division, the grain alone */
		{1200, 4, 1536},
		{2048, 4, 2048},
		{2049, 4, 2560},
		{2560, 4, 2560},
		{2561, 4, 3072},
		{3584, 4, 3584},
		{3585, 4, 4096},
		{4096, 4, 4096},
		{4097, 4, 5120},
		{MIB + 1, 2, MIB + MIB / 2},
		{MIB + MIB / 2 + 1, 2, 2 * MIB},
		{5 * MIB, 8, 5 * MIB},
		{5 * MIB + 1, 8, 5 * MIB + MIB / 2},
		{CM_REQUEST_MAX - 1, 4, CM_REQUEST_MAX},
		{1, 256, 512},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cm_policy policy = policy_with(cases[i].divisions);
		uint64_t size = cm_size_round(&policy, cases[i].bytes);

		if (size != cases[i].size)
			fail_msg("%llu bytes by %u make %llu, want %llu",
				 (unsigned long long)cases[i].bytes, cases[i].divisions,
				 (unsigned long long)size, (unsigned long long)cases[i].size);
	}
}

CM_TEST(each_power_of_two_from_1_mib_has_divisions_of_its_own)
{
	struct cm_policy policy = policy_with(0);

	policy.roundup_power2_divisions[0] = 2;   /* below 2 MiB */
	policy.roundup_power2_divisions[3] = 4;   /* 8 to 16 MiB */
	policy.roundup_power2_divisions[15] = 16; /* from 32 GiB */
	assert_int_equal(cm_size_round(&policy, 5 * KIB), 6 * KIB);
	assert_int_equal(cm_size_round(&policy, MIB + 1), MIB + MIB / 2);
	assert_int_equal(cm_size_round(&policy, 2 * MIB + 1), 2 * MIB + 512);
	assert_int_equal(cm_size_round(&policy, 9 * MIB), 10 * MIB);
	assert_int_equal(cm_size_round(&policy, 16 * MIB + 1), 16 * MIB + 512);
	assert_int_equal(cm_size_round(&policy, 32 * GIB + 1), 34 * GIB);
	assert_int_equal(cm_size_round(&policy, 64 * GIB + 1), 68 * GIB);
}

CM_TEST(a_rounded_size_is_a_multiple_of_512_and_never_less)
{
	uint64_t bytes, size;
	uint32_t divisions;

	for (divisions = 1; divisions <= 64; divisions *= 2) {
		struct cm_policy policy = policy_with(divisions);

		for (bytes = 1; bytes < 64 * GIB; bytes += bytes / 3 + 1) {
			size = cm_size_round(&policy, bytes);
			assert_true(size >= bytes && size % CM_GRAIN == 0);
			assert_true(size < 2 * bytes + CM_GRAIN);
			assert_int_equal(cm_size_round(&policy, size), size);
		}
	}
}

CM_TEST(a_miss_asks_for_2_mib_20_mib_or_what_it_needs)
{
	static const struct {
		uint64_t size;
		uint64_t large; /* large_segment_size */
		enum cm_placement placement;
		uint64_t segment;
	} cases[] = {
		{512, 20 * MIB, CM_PLACEMENT_SPLIT, 2 * MIB},
		{MIB, 20 * MIB, CM_PLACEMENT_SPLIT, 2 * MIB},
		{MIB + 512, 20 * MIB, CM_PLACEMENT_SPLIT, 20 * MIB},
		{10 * MIB - 512, 20 * MIB, CM_PLACEMENT_SPLIT, 20 * MIB},
		{10 * MIB, 20 * MIB, CM_PLACEMENT_SPLIT, 10 * MIB},
		{10 * MIB + 512, 20 * MIB, CM_PLACEMENT_SPLIT, 12 * MIB},
		{3 * GIB, 20 * MIB, CM_PLACEMENT_SPLIT, 3 * GIB},
		{MIB + 512, 32 * MIB, CM_PLACEMENT_SPLIT, 32 * MIB},
		{10 * MIB, 32 * MIB, CM_PLACEMENT_SPLIT, 10 * MIB},
		{512, 20 * MIB, CM_PLACEMENT_EXACT, 512},
		{MIB, 20 * MIB, CM_PLACEMENT_EXACT, MIB},
		{MIB + 512, 20 * MIB, CM_PLACEMENT_EXACT, 2 * MIB},
		{3 * MIB, 20 * MIB, CM_PLACEMENT_EXACT, 4 * MIB},
		{CM_REQUEST_MAX, 20 * MIB, CM_PLACEMENT_SPLIT, CM_REQUEST_MAX},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cm_policy policy = policy_with(0);

		policy.large_segment_size = cases[i].large;
		policy.placement = cases[i].placement;
		if (cm_size_segment(&policy, cases[i].size) != cases[i].segment)
			fail_msg("%llu bytes ask for %llu, want %llu",
				 (unsigned long long)cases[i].size,
				 (unsigned long long)cm_size_segment(&policy, cases[i].size),
				 (unsigned long long)cases[i].segment);
	}
}

CM_TEST(one_mib_is_the_largest_of_the_small_pool)
{
	assert_int_equal(cm_size_pool(512), CM_POOL_SMALL);
	assert_int_equal(cm_size_pool(MIB), CM_POOL_SMALL);
	assert_int_equal(cm_size_pool(MIB + 512), CM_POOL_LARGE);
}
