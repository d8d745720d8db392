/* SPDX-License-Identifier: MIT */
/* Of work that names memory of another device the first event is taken for its end. */
#include "allocator/reuse/reach.h"

extern struct cm_reach *__real_cm_reach_open_event_locked(struct cm_device *device,
							  const struct cm_device *by,
							  uint64_t *ret_number)
	__attribute__((visibility("hidden")));
struct cm_reach *__wrap_cm_reach_open_event_locked(struct cm_device *device,
						   const struct cm_device *by,
						   uint64_t *ret_number);

struct cm_reach *__wrap_cm_reach_open_event_locked(struct cm_device *device,
						   const struct cm_device *by, uint64_t *ret_number)
{
	struct cm_reach *reach = __real_cm_reach_open_event_locked(device, by, ret_number);

	if (reach)
		cm_reach_close_event_locked(reach, *ret_number);
	return reach;
}
