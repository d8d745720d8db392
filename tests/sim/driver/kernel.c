/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <string.h>

uint64_t sim_kernel_value(const struct sim_kernel_run *run, int param)
{
	return param < 0 ? 1 : run->values[param];
}

uint64_t sim_kernel_amount(const struct sim_kernel_run *run, const struct sim_amount *amount)
{
	return sim_kernel_value(run, amount->param) * amount->factor;
}

bool sim_kernel_visit(const struct sim_kernel_run *run,
		      bool (*see)(const struct sim_touch *touch, void *data), void *data)
{
	for (unsigned i = 0; i < run->kernel.touch_count; i++) {
		const struct sim_kernel_touch *kind = &run->kernel.touches[i];
		const struct sim_touch touch = {
			.addr = sim_kernel_value(run, kind->param),
			.bytes = sim_kernel_amount(run, &kind->bytes),
			.write = kind->write,
		};

		if (touch.bytes && !see(&touch, data))
			return false;
	}
	return true;
}

static void *pointer_arg(const struct sim_kernel_run *run, unsigned arg)
{
	return (void *)(uintptr_t)sim_kernel_value(run, run->kernel.args[arg]);
}

static float float_arg(const struct sim_kernel_run *run, unsigned arg)
{
	float value;

	memcpy(&value, &run->values[run->kernel.args[arg]], sizeof(value));
	return value;
}

static void fill(const struct sim_kernel_run *run)
{
	uint32_t *dst = pointer_arg(run, 0);
	uint32_t value = (uint32_t)sim_kernel_value(run, run->kernel.args[1]);
	uint64_t count = sim_kernel_value(run, run->kernel.args[2]);

	for (uint64_t i = 0; i < count; i++)
		dst[i] = value;
}

static void add(const struct sim_kernel_run *run)
{
	float *dst = pointer_arg(run, 0);
	const float *a = pointer_arg(run, 1);
	const float *b = pointer_arg(run, 2);
	uint64_t count = sim_kernel_value(run, run->kernel.args[3]);

	for (uint64_t i = 0; i < count; i++)
		dst[i] = a[i] + b[i];
}

static void scale(const struct sim_kernel_run *run)
{
	float *dst = pointer_arg(run, 0);
	const float *src = pointer_arg(run, 1);
	float factor = float_arg(run, 2);
	uint64_t count = sim_kernel_value(run, run->kernel.args[3]);

	for (uint64_t i = 0; i < count; i++)
		dst[i] = src[i] * factor;
}

void sim_kernel_execute(const struct sim_kernel_run *run)
{
	switch (run->kernel.what) {
	case SIM_KERNEL_NOTHING:
		break;
	case SIM_KERNEL_FILL:
		fill(run);
		break;
	case SIM_KERNEL_COPY:
		memmove(pointer_arg(run, 0), pointer_arg(run, 1),
			sim_kernel_value(run, run->kernel.args[2]));
		break;
	case SIM_KERNEL_ADD:
		add(run);
		break;
	case SIM_KERNEL_SCALE:
		scale(run);
		break;
	}
}

bool sim_kernel_is_over(const struct sim_kernel_run *run)
{
	const uint32_t *flag;

	if (run->kernel.until < 0)
		return true;
	flag = (const uint32_t *)(uintptr_t)sim_kernel_value(run, run->kernel.until);
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0;
}
