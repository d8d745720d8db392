/* SPDX-License-Identifier: MIT */
#include "tests/proof/host_copies.h"

#include <string.h>

#include "tests/proof/answers.h"

typedef bool copy_fn(struct proof_hand *hand, const struct proof_copy *copy);
typedef bool write_fn(struct proof_hand *hand, const struct proof_write *write);

static void *host_of(CUdeviceptr addr)
{
	return (void *)(uintptr_t)addr;
}

static bool copy_plain(struct proof_hand *hand, const struct proof_copy *copy)
{
	if (copy->to_host)
		return CALL(hand, cuMemcpyDtoHAsync_v2, host_of(copy->dst), copy->src, copy->bytes,
			    copy->stream);
	return CALL(hand, cuMemcpyHtoDAsync_v2, copy->dst, host_of(copy->src), copy->bytes,
		    copy->stream);
}

static bool copy_unified(struct proof_hand *hand, const struct proof_copy *copy)
{
	return CALL(hand, cuMemcpyAsync, copy->dst, copy->src, copy->bytes, copy->stream);
}

static bool copy_plane(struct proof_hand *hand, const struct proof_copy *copy)
{
	const CUDA_MEMCPY2D plane = {
		.srcMemoryType = copy->to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.srcHost = copy->to_host ? NULL : host_of(copy->src),
		.srcDevice = copy->to_host ? copy->src : 0,
		.srcPitch = copy->bytes,
		.dstMemoryType = copy->to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstHost = copy->to_host ? host_of(copy->dst) : NULL,
		.dstDevice = copy->to_host ? 0 : copy->dst,
		.dstPitch = copy->bytes,
		.WidthInBytes = copy->bytes,
		.Height = 1,
	};

	return CALL(hand, cuMemcpy2DAsync_v2, &plane, copy->stream);
}

static CUDA_MEMCPY3D box_of(const struct proof_copy *copy)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = copy->src,
		.srcPitch = copy->bytes,
		.srcHeight = 1,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = copy->dst,
		.dstPitch = copy->bytes,
		.dstHeight = 1,
		.WidthInBytes = copy->bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static bool copy_box(struct proof_hand *hand, const struct proof_copy *copy)
{
	const CUDA_MEMCPY3D box = box_of(copy);

	return CALL(hand, cuMemcpy3DAsync_v2, &box, copy->stream);
}

static bool copy_box_of_peer(struct proof_hand *hand, const struct proof_copy *copy)
{
	const CUDA_MEMCPY3D_PEER box = {
		.srcMemoryType = copy->to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.srcHost = copy->to_host ? NULL : host_of(copy->src),
		.srcDevice = copy->to_host ? copy->src : 0,
		.srcContext = copy->ctx,
		.srcPitch = copy->bytes,
		.srcHeight = 1,
		.dstMemoryType = copy->to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstHost = copy->to_host ? host_of(copy->dst) : NULL,
		.dstDevice = copy->to_host ? 0 : copy->dst,
		.dstContext = copy->ctx,
		.dstPitch = copy->bytes,
		.dstHeight = 1,
		.WidthInBytes = copy->bytes,
		.Height = 1,
		.Depth = 1,
	};

	return CALL(hand, cuMemcpy3DPeerAsync, &box, copy->stream);
}

/* Not in the legacy stream (cuda.h). */
static bool takes_batches(const struct proof_copy *copy)
{
	int version = 0;

	return copy->stream && cuDriverGetVersion(&version) == CUDA_SUCCESS && version >= 13000;
}

static bool copy_batch(struct proof_hand *hand, const struct proof_copy *copy)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr dsts[] = {copy->dst}, srcs[] = {copy->src};
	size_t sizes[] = {copy->bytes}, first = 0;

	if (!takes_batches(copy))
		return copy_unified(hand, copy);
	return CALL(hand, cuMemcpyBatchAsync_v2, dsts, srcs, sizes, 1, &attributes, &first, 1,
		    copy->stream);
}

static bool copy_batch_of_boxes(struct proof_hand *hand, const struct proof_copy *copy)
{
	CUDA_MEMCPY3D_BATCH_OP op = {
		.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
		.dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
		.extent = {.width = copy->bytes, .height = 1, .depth = 1},
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};

	if (!takes_batches(copy))
		return copy_unified(hand, copy);
	op.src.op.ptr.ptr = copy->src;
	op.dst.op.ptr.ptr = copy->dst;
	return CALL(hand, cuMemcpy3DBatchAsync_v2, 1, &op, 0, copy->stream);
}

/* `stream` comes after what is in the copy's stream now, and the other way round. */
static bool stand_behind(struct proof_hand *hand, const struct proof_copy *copy, CUstream stream)
{
	return CALL(hand, cuEventRecord, copy->event, copy->stream) &&
	       CALL(hand, cuStreamWaitEvent, stream, copy->event, 0);
}

static bool go_on_behind(struct proof_hand *hand, const struct proof_copy *copy, CUstream stream)
{
	return CALL(hand, cuEventRecord, copy->event, stream) &&
	       CALL(hand, cuStreamWaitEvent, copy->stream, copy->event, 0);
}

static bool copy_in_thread_stream(struct proof_hand *hand, const struct proof_copy *copy)
{
	bool ok = stand_behind(hand, copy, CU_STREAM_PER_THREAD);

	if (ok && copy->to_host)
		ok = CALL(hand, cuMemcpyDtoHAsync_v2_ptsz, host_of(copy->dst), copy->src,
			  copy->bytes, NULL);
	else if (ok)
		ok = CALL(hand, cuMemcpyAsync_ptsz, copy->dst, copy->src, copy->bytes, NULL);
	return ok && go_on_behind(hand, copy, CU_STREAM_PER_THREAD);
}

static bool copy_in_passing_stream(struct proof_hand *hand, const struct proof_copy *copy)
{
	CUstream stream;
	bool ok;

	if (!CALL(hand, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING))
		return false;
	ok = stand_behind(hand, copy, stream) &&
	     CALL(hand, cuMemcpyAsync, copy->dst, copy->src, copy->bytes, stream) &&
	     go_on_behind(hand, copy, stream);
	(void)CALL(hand, cuStreamDestroy_v2, stream);
	return ok;
}

/* Launches the graph once, and lets go of it while it runs. */
static bool run_graph(struct proof_hand *hand, CUgraph graph, CUstream stream)
{
	CUgraphExec exec;
	bool ok = MEMORY(hand, cuGraphInstantiateWithFlags, &exec, graph, 0);

	(void)CALL(hand, cuGraphDestroy, graph);
	if (!ok)
		return false;
	ok = CALL(hand, cuGraphLaunch, exec, stream);
	(void)CALL(hand, cuGraphExecDestroy, exec);
	return ok;
}

static bool copy_by_node(struct proof_hand *hand, const struct proof_copy *copy)
{
	const CUDA_MEMCPY3D box = box_of(copy);
	CUgraphNode node;
	CUgraph graph;

	if (!CALL(hand, cuGraphCreate, &graph, 0) ||
	    !CALL(hand, cuGraphAddMemcpyNode, &node, graph, NULL, 0, &box, copy->ctx))
		return false;
	return run_graph(hand, graph, copy->stream);
}

/* A capture in another stream than the block's, as the legacy stream has none. Not where others
 * capture: a library may have found all of them, and this one ends at once. */
static bool copy_by_capture(struct proof_hand *hand, const struct proof_copy *copy)
{
	CUgraph graph = NULL;
	CUstream stream;
	bool ok;

	if (proof_state.captures || proof_state.run.free_running)
		return copy_by_node(hand, copy);
	if (!CALL(hand, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING))
		return false;
	ok = CALL(hand, cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) &&
	     CALL(hand, cuMemcpyAsync, copy->dst, copy->src, copy->bytes, stream);
	ok = CALL(hand, cuStreamEndCapture, stream, &graph) && ok;
	(void)CALL(hand, cuStreamDestroy_v2, stream);
	return ok && run_graph(hand, graph, copy->stream);
}

bool proof_copy_in_form(struct proof_hand *hand, const struct proof_copy *copy, uint64_t form)
{
	static copy_fn *const forms[] = {
		copy_plain,
		copy_unified,
		copy_plane,
		copy_box,
		copy_box_of_peer,
		copy_batch,
		copy_batch_of_boxes,
		copy_in_thread_stream,
		copy_in_passing_stream,
		copy_by_node,
		copy_by_capture,
	};

	return forms[form % (sizeof(forms) / sizeof(forms[0]))](hand, copy);
}

static bool write_by_kernel(struct proof_hand *hand, const struct proof_write *write)
{
	CUdeviceptr dst = write->dst;
	uint64_t n = write->n, bytes = n * 4, ns = 1 << 12;
	uint32_t value = write->value;
	void *params[] = {&dst, &bytes, &value, &n, &ns};

	return CALL(hand, cuLaunchKernel, write->touch, 1, 1, 1, 1, 1, 1, 0, write->stream, params,
		    NULL);
}

static bool write_by_fill(struct proof_hand *hand, const struct proof_write *write)
{
	return CALL(hand, cuMemsetD32Async, write->dst, write->value, write->n, write->stream);
}

static bool write_by_plane(struct proof_hand *hand, const struct proof_write *write)
{
	return CALL(hand, cuMemsetD2D32Async, write->dst, write->n * 4, write->value, write->n, 1,
		    write->stream);
}

static bool write_words(struct proof_hand *hand, const struct proof_write *write)
{
	bool ok = true;
	size_t i;

	for (i = 0; i < write->n && ok; i++)
		ok = CALL(hand, cuStreamWriteValue32_v2, write->stream, write->dst + i * 4,
			  write->value, 0);
	return ok;
}

static bool write_words_at_once(struct proof_hand *hand, const struct proof_write *write)
{
	CUstreamBatchMemOpParams ops[PROOF_WORDS];
	size_t i;

	memset(ops, 0, sizeof(ops));
	for (i = 0; i < write->n; i++) {
		ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		ops[i].writeValue.address = write->dst + i * 4;
		ops[i].writeValue.value = write->value;
	}
	return CALL(hand, cuStreamBatchMemOp_v2, write->stream, (unsigned)write->n, ops, 0);
}

static bool write_by_node(struct proof_hand *hand, const struct proof_write *write)
{
	const CUDA_MEMSET_NODE_PARAMS fill = {.dst = write->dst,
					      .pitch = write->n * 4,
					      .value = write->value,
					      .elementSize = 4,
					      .width = write->n,
					      .height = 1};
	CUcontext ctx;
	CUgraphNode node;
	CUgraph graph;

	if (!CALL(hand, cuCtxGetCurrent, &ctx) || !CALL(hand, cuGraphCreate, &graph, 0) ||
	    !CALL(hand, cuGraphAddMemsetNode, &node, graph, NULL, 0, &fill, ctx))
		return false;
	return run_graph(hand, graph, write->stream);
}

struct call {
	uint32_t *words;
	uint32_t value;
	size_t n;
};

/* More than a program has under way: none is used again before its host function has run. */
#define CALLS 4096
static struct call calls[CALLS];
static _Atomic size_t calls_made;

static void write_by_host(void *data)
{
	const struct call *call = data;
	size_t i;

	for (i = 0; i < call->n; i++)
		((volatile uint32_t *)call->words)[i] = call->value;
}

static void CUDA_CB write_by_callback(CUstream stream, CUresult res, void *data)
{
	(void)stream;
	(void)res;
	write_by_host(data);
}

static struct call *call_of(const struct proof_write *write)
{
	struct call *call = &calls[calls_made++ % CALLS];

	*call = (struct call){host_of(write->dst), write->value, write->n};
	return call;
}

static bool write_by_function(struct proof_hand *hand, const struct proof_write *write)
{
	return CALL(hand, cuLaunchHostFunc, write->stream, write_by_host, call_of(write));
}

static bool write_behind_callback(struct proof_hand *hand, const struct proof_write *write)
{
	return CALL(hand, cuStreamAddCallback, write->stream, write_by_callback, call_of(write), 0);
}

bool proof_write_in_form(struct proof_hand *hand, const struct proof_write *write, uint64_t form)
{
	static write_fn *const forms[] = {
		write_by_function, write_behind_callback, write_by_kernel,     write_by_fill,
		write_by_plane,    write_words,           write_words_at_once, write_by_node,
	};
	const uint64_t n = sizeof(forms) / sizeof(forms[0]), first_of_device = 2;

	/* Without a kernel: what writes plain memory of the host is a function of the host. */
	return forms[write->touch ? form % n : form % first_of_device](hand, write);
}
