/* SPDX-License-Identifier: MIT */
#include "tools/top/replay.h"

int cm_top_seek(struct cm_top *top, struct cm_watch_source *source, int64_t by_ns)
{
	const bool paused = top->paused;
	struct cm_watch_sample sample;
	size_t left;
	int err = 0;

	left = source->seek(source, by_ns, CM_TOP_SAMPLES - 1);
	top->paused = false;
	cm_top_forget(top);
	for (; !err && left; left--) {
		err = source->take(source, &sample);
		if (!err)
			err = cm_top_update(top, &sample);
	}
	top->paused = paused;
	return err;
}

int cm_top_lead_in(struct cm_top *top, struct cm_watch_source *source)
{
	struct cm_watch_sample sample;
	const int err = source->take(source, &sample);

	return err ? err : cm_top_seek(top, source, 0);
}
