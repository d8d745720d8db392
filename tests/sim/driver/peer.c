/* SPDX-License-Identifier: MIT */
/* Access of devices to each other's memory: of a context to all that another one allocated. Mapped
 * pages are no context's: there each device has access of its own. */
#include "context.h"
#include "memory.h"
#include "plan.h"
#include "vmm.h"

CUresult sim_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(dev) || !sim_device_get(peerDev))
		return CUDA_ERROR_INVALID_DEVICE;
	*canAccessPeer = dev != peerDev && sim_plan.peers;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
				     CUdevice dstDevice)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (srcDevice == dstDevice || !sim_device_get(srcDevice) || !sim_device_get(dstDevice))
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
		*value = sim_plan.peers;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static struct sim_current *find_peer(struct sim_ctx *ctx, const struct sim_ctx *peer)
{
	for (unsigned i = 0; i < SIM_PEERS; i++) {
		if (ctx->peers[i].ctx == peer && ctx->peers[i].id == peer->object.id)
			return &ctx->peers[i];
	}
	return NULL;
}

static bool is_gone(const struct sim_current *peer)
{
	return !sim_object_is(peer->ctx, SIM_CONTEXT) || peer->ctx->object.id != peer->id;
}

bool sim_ctx_can_reach(struct sim_ctx *ctx, const struct sim_mem *mem, bool write)
{
	if (mem->kind == SIM_MEM_MAPPED)
		return sim_vmm_is_open_to(mem, ctx->device->ordinal, write);
	return !mem->ctx || mem->ctx->device == ctx->device || !sim_mem_is_on_device(mem) ||
	       find_peer(ctx, mem->ctx);
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct sim_ctx *ctx = sim_ctx_current();
	struct sim_ctx *peer = peerContext ? sim_ctx_of(peerContext) : NULL;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!peer || peer == ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (peer->device == ctx->device || !sim_plan.peers)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (find_peer(ctx, peer))
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	for (unsigned i = 0; i < SIM_PEERS; i++) {
		if (is_gone(&ctx->peers[i])) {
			ctx->peers[i] = (struct sim_current){.ctx = peer, .id = peer->object.id};
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_TOO_MANY_PEERS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct sim_ctx *peer = peerContext ? sim_ctx_of(peerContext) : NULL;
	struct sim_current *entry = peer ? find_peer(sim_ctx_current(), peer) : NULL;

	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!entry)
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	*entry = (struct sim_current){.ctx = NULL};
	return CUDA_SUCCESS;
}
