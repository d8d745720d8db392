/* SPDX-License-Identifier: MIT */
/*
 * Work on RMM's buffers that keeps a column of every tenth step, for docs/cookbook.md.
 * It needs librmm 25.2, which is headers alone:
 *
 *	pip install --no-deps --target rmm librmm-cu12==25.2.0
 *	RMM=rmm/librmm/include
 *	nvcc -std=c++17 -g -cudart shared -I$RMM -I$RMM/rapids -I$RMM/rapids/libcudacxx \
 *		-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -DSPDLOG_FMT_EXTERNAL \
 *		-DFMT_HEADER_ONLY -o columns columns.cu $RMM/rmm/logger_impl/logger.cpp
 *
 *	columns cuda    takes each buffer by cudaMalloc
 *	columns pool    takes it from RMM's pool
 *
 * It waits for the end of its standard input.
 */
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/device/cuda_memory_resource.hpp>
#include <rmm/mr/device/per_device_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>

using buffer = rmm::device_buffer;

static constexpr std::size_t mib = std::size_t{1} << 20;

static buffer smooth(const buffer &column, rmm::cuda_stream_view stream)
{
	buffer scratch(2 * column.size(), stream);
	buffer smoothed(column, stream);

	return smoothed;
}

static std::vector<buffer> work(rmm::cuda_stream_view stream)
{
	std::vector<buffer> kept;
	buffer column(8 * mib, stream);

	for (int step = 0; step < 100; step++) {
		column = smooth(column, stream);
		if (step % 10 == 0)
			kept.emplace_back(column, stream);
	}
	stream.synchronize();
	return kept;
}

int main(int argc, char **argv)
{
	rmm::mr::cuda_memory_resource cuda;
	std::unique_ptr<rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>> pool;

	if (argc > 1 && !std::strcmp(argv[1], "pool")) {
		pool = std::make_unique<decltype(pool)::element_type>(&cuda, 32 * mib);
		rmm::mr::set_current_device_resource(pool.get());
	} else {
		rmm::mr::set_current_device_resource(&cuda);
	}
	rmm::cuda_stream stream;
	std::vector<buffer> kept = work(stream);

	std::puts("ready");
	std::fflush(stdout);
	while (std::getchar() != EOF)
		;
}
