/*
 * The state of the allocator after an event: the segments that were reserved then, the allocations in
 * them, and the holes between. Block sizes are multiples of 512 bytes, so a smaller gap is rounding.
 */
const GRAIN = 512;
const SEGMENT_ORDERS = {
  address: (a, b) => a.addr - b.addr,
  size: (a, b) => b.size - a.size || a.addr - b.addr,
  emptiness: (a, b) => b.free / b.size - a.free / a.size || b.free - a.free || a.addr - b.addr,
};

function stateAt(device, event, order) {
  const segments = segmentsAt(device, event);
  const state = { segments, live: 0, waits: 0, reserved: 0, fragmented: 0, releasable: 0, count: 0 };
  for (let i = 0; i < device.number && device.begin[i] <= event; i++) {
    if (device.ready[i] <= event)
      continue;
    const address = device.address(i), waits = device.freed[i] <= event;
    state[waits ? "waits" : "live"] += device.size[i];
    state.count += !waits;
    const at = lastAtMost(segments.length, (k) => segments[k].addr, address);
    if (at < 0 || address >= segments[at].addr + segments[at].size)
      continue;
    segments[at].blocks.push(i);
    segments[at][waits ? "waits" : "live"] += device.size[i];
  }
  for (const segment of segments) {
    findHoles(device, segment);
    state.reserved += segment.size;
    state[segment.blocks.length ? "fragmented" : "releasable"] += segment.free;
  }
  segments.sort(SEGMENT_ORDERS[order]);
  return state;
}

/* The segments by address; adjacent pages are one segment. */
function segmentsAt(device, event) {
  const segments = [], kept = [];
  for (let s = 0; s < device.seg_addr.length; s++) {
    const begin = device.seg_begin.values[s], end = device.seg_end.values[s];
    if ((begin === BEFORE || begin <= event) && (end === NEVER || end > event))
      segments.push({ s, addr: device.seg_addr.at(s), size: device.seg_size.at(s), blocks: [], live: 0, waits: 0,
        small: device.seg_small.values[s], paged: device.seg_paged.values[s] });
  }
  segments.sort(SEGMENT_ORDERS.address);
  for (const segment of segments) {
    const last = kept[kept.length - 1];
    if (last && segment.paged && last.paged && last.addr + last.size === segment.addr)
      last.size += segment.size;
    else
      kept.push(segment);
  }
  return kept;
}

/* Sets `holes`, as [address, bytes], and the sum `free`. */
function findHoles(device, segment) {
  const end = segment.addr + segment.size;
  let at = segment.addr;
  segment.blocks.sort((a, b) => device.address(a) - device.address(b));
  segment.holes = [];
  segment.free = 0;
  const hole = (to) => {
    if (to - at < GRAIN)
      return;
    segment.holes.push([at, to - at]);
    segment.free += to - at;
  };
  for (const i of segment.blocks) {
    hole(device.address(i));
    at = Math.max(at, segment.addr + Math.ceil((device.address(i) + device.size[i] - segment.addr) / GRAIN) * GRAIN);
  }
  hole(end);
}
