/*
 * The state of the allocator after each event: a segment is a row, a block a part of it. The list, the
 * slider and the keys select an event.
 */
const ROW_LEAST = 20, ROW_MOST = 44;
const SEGMENT_FONT = "11px system-ui, sans-serif";

class BlocksView extends View {
  constructor(world, tab) {
    super(world, tab);
    const d = this.device;
    this.order = "address";
    if (world.page.kind === "blocks")
      world.cursor = d.events - 1;
    this.list = new EventList(this);
    this.slider = element("input", {
      type: "range", min: -1, max: Math.max(-1, d.events - 1), value: world.cursor, "aria-label": "event",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.label = element("span", { class: "bytes" });
    this.holder = element("div", { class: "holder" });
    this.spacer = element("div");
    this.map = element("div", { class: "map" }, this.holder, this.spacer);
    this.stage.append(element("div", { class: "blocks" }, this.list.node, element("div", { class: "memory" },
      element("div", { class: "scrub" },
        element("button", { title: "previous event", onclick: () => this.go(world.cursor - 1) }, "\u2039"), this.slider,
        element("button", { title: "next event", onclick: () => this.go(world.cursor + 1) }, "\u203a"), this.label),
      this.map)));
    this.canvas = new Canvas(this.holder, (context, w, h) => this.draw(context, w, h));
    this.map.addEventListener("scroll", () => this.canvas.draw());
    tipOver(this.holder, this.tip, (event) => this.hover(event));
    this.holder.addEventListener("click", (event) => this.click(event));
    this.addControls();
    this.addKeys();
    this.update();
  }

  addControls() {
    const { device: d } = this;
    this.controls.append(
      element("span", { class: "count" }, "segments by"),
      buttonGroup([["address", "Address"], ["size", "Size"], ["emptiness", "Emptiness", "the emptiest first"]], "address",
        (value) => {
          this.order = value;
          this.map.scrollTop = 0;
          this.update();
        }),
      element("button", { id: "block_peak", title: "the peak (p)", onclick: () => this.go(d.peak) }, "Peak"),
      ...(d.ooms.length ? [element("button", { id: "oom", title: "the next one (o)", onclick: () => this.nextOom() },
        `Out of memory (${d.ooms.length})`)] : []));
    notes(this.footer, "solid: allocated", "hatched: pending free", "red: hole, fragmented", "green: releasable",
      "click a block: hold it", "arrow keys: step", "?: all keys");
  }

  addKeys() {
    const by = (step) => () => this.go(Math.max(-1, Math.min(this.device.events - 1, this.world.cursor + step)));
    this.keys = [
      [["ArrowUp", "ArrowLeft"], "the event before", by(-1)], [["ArrowDown", "ArrowRight"], "the next event", by(1)],
      [["PageUp"], "50 events back", by(-50)], [["PageDown"], "50 events on", by(50)],
      [["Home"], "before the first event", by(-Infinity)], [["End"], "the last event", by(Infinity)],
      [["p"], "the peak", () => this.go(this.device.peak)],
      [["o"], "the next time that memory ran out", () => this.nextOom()],
      [["s"], "sort the segments by address, size, emptiness", () => this.nextOrder()],
    ];
    this.gestures = [["click", "hold the block"], ["click an event", "go to it"]];
  }

  nextOrder() {
    const orders = Object.keys(SEGMENT_ORDERS), next = orders[(orders.indexOf(this.order) + 1) % orders.length];
    this.controls.querySelector(`[data-value=${next}]`).click();
  }

  nextOom() {
    const ooms = this.device.ooms.map(([event]) => event);
    if (ooms.length)
      this.go(ooms.find((event) => event > this.world.cursor) ?? ooms[0]);
  }

  go(event) {
    this.world.set({ cursor: Math.max(-1, Math.min(this.device.events - 1, event)) });
  }

  changed(names) {
    const { world, device: d } = this;
    if (names.includes("search")) {
      this.list.search();
      this.list.draw();
    }
    if (names.includes("block") && world.block >= 0 && !d.isActive(world.block, world.cursor))
      world.cursor = d.begin[world.block];
    this.update();
    if (names.includes("block"))
      this.reveal(world.block);
  }

  shown() {
    const { world, device: d } = this;
    if (world.block >= 0 && !d.isActive(world.block, world.cursor))
      world.set({ cursor: d.begin[world.block] });
    this.update();
    this.reveal(world.block);
  }

  /* Shows the state after the event under the cursor. */
  update() {
    const { world, device: d } = this, e = world.cursor;
    this.slider.value = String(e);
    this.label.textContent = e < 0 ? "before the first event"
      : `${formatCount(e)} of ${formatCount(d.events - 1)} \u00b7 ${formatTime(d.time(e))}`;
    this.state = stateAt(d, e, this.order);
    this.segments = this.state.segments;
    this.largest = this.segments.reduce((most, segment) => Math.max(most, segment.size), 1);
    this.list.reveal(e);
    this.row = Math.max(ROW_LEAST, Math.min(ROW_MOST,
      Math.floor((this.map.clientHeight - 20) / Math.max(1, this.segments.length))));
    this.spacer.style.height = Math.max(0, this.segments.length * this.row + 20 - this.map.clientHeight) + "px";
    this.canvas.draw();
    this.showSide();
  }

  /* Scrolls to the segment of a block. */
  reveal(i) {
    const at = i < 0 ? -1 : this.segments.findIndex((segment) => segment.blocks.includes(i));
    if (at < 0)
      return;
    const top = at * this.row, height = this.map.clientHeight;
    if (top < this.map.scrollTop || top + this.row > this.map.scrollTop + height)
      this.map.scrollTop = top - height / 2;
  }

  draw(context, width, height) {
    const top = this.map.scrollTop, first = Math.floor(top / this.row);
    context.font = SEGMENT_FONT;
    this.narrow = width < 500;
    this.left = Math.ceil(context.measureText("1000 MiB  100%").width) + 14 + (this.narrow ? 0 : 120);
    this.wide = Math.max(80, width - this.left - 20);
    if (!this.segments.length) {
      write(context, "No memory was reserved at this moment.", 20, 40, cssColor("--faint"),
        "13px system-ui, sans-serif", "left alphabetic");
      return;
    }
    const inks = { faint: cssColor("--faint"), line: cssColor("--line"), panel: cssColor("--panel"),
      accent: cssColor("--accent"), back: cssColor("--back"), hole: cssColor("--hole"), spare: cssColor("--spare") };
    const e = this.world.cursor;
    this.touched = e >= 0 && this.device.event_action.values[e] < OOM ? this.device.event_addr.at(e) : -1;
    for (let r = first; r < this.segments.length && r * this.row - top < height; r++)
      this.drawSegment(context, this.segments[r], 8 + r * this.row - top, inks);
  }

  /* Pixels a byte: in proportion, with a visible minimum. */
  scale(segment) {
    return Math.max(0.04, segment.size / this.largest) * this.wide / segment.size;
  }

  drawSegment(context, segment, y, inks) {
    const scale = this.scale(segment), h = this.row - 5, { left } = this;
    if (!this.narrow)
      write(context, formatAddress(segment.addr), 10, y + h / 2, inks.faint,
        "11px ui-monospace, Menlo, Consolas, monospace", "left middle");
    write(context, `${formatBytes(segment.size)}  ${Math.round(100 * segment.live / segment.size)}%`,
      left - 10, y + h / 2, inks.faint, SEGMENT_FONT, "right middle");
    context.fillStyle = inks.panel;
    context.fillRect(left, y, segment.size * scale, h);
    context.fillStyle = segment.blocks.length ? inks.hole : inks.spare;
    for (const [address, bytes] of segment.holes)
      context.fillRect(left + (address - segment.addr) * scale, y, Math.max(0.5, bytes * scale), h);
    for (const i of segment.blocks)
      this.drawBlock(context, i, left + (this.device.address(i) - segment.addr) * scale, y,
        Math.max(0.6, this.device.size[i] * scale), h, inks);
    context.strokeStyle = this.touched === segment.addr && this.device.seg_begin.values[segment.s] === this.world.cursor
      ? inks.accent : inks.line;
    context.strokeRect(left - 0.5, Math.round(y) - 0.5, segment.size * scale + 1, h + 1);
  }

  drawBlock(context, i, x, y, w, h, inks) {
    const { device: d, world } = this, waits = d.freed[i] <= world.cursor;
    context.globalAlpha = world.isDim(i) ? 0.15 : waits ? 0.3 : 1;
    context.fillStyle = inks.back;
    context.fillRect(x, y, w, h);
    context.fillStyle = world.colors.css(d.stack[i]);
    context.fillRect(x, y, w, h);
    if (waits && w > 3)
      this.hatch(context, x, y, w, h);
    context.globalAlpha = 1;
    if (w > 4) {
      context.fillStyle = inks.back;
      context.fillRect(x + w - 0.7, y, 0.7, h);
    }
    if (d.address(i) === this.touched || i === world.block) {
      context.strokeStyle = inks.accent;
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, Math.max(4, w) + 1, h + 2);
      context.lineWidth = 1;
    }
  }

  hatch(context, x, y, w, h) {
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    context.strokeStyle = context.fillStyle;
    context.globalAlpha = 0.9;
    context.beginPath();
    for (let at = x - h; at < x + w; at += 5) {
      context.moveTo(at, y + h);
      context.lineTo(at + h, y);
    }
    context.stroke();
    context.restore();
  }

  /* What is at a place: { segment, span or hole, box }, or null. */
  hit(event) {
    const [left, top] = this.canvas.place(event), d = this.device;
    const x = left - this.left, y = top + this.map.scrollTop - 8, row = Math.floor(y / this.row);
    const segment = this.segments[row];
    if (!segment || y < 0)
      return null;
    const scale = this.scale(segment), at = segment.addr + x / scale, slack = 1.5 / scale;
    const box = (address, bytes) => this.canvas.inWindow([this.left + (address - segment.addr) * scale,
      8 + row * this.row - this.map.scrollTop, Math.max(1, bytes * scale), this.row - 5]);
    if (at >= segment.addr + segment.size)
      return null;
    if (x < 0)
      return { segment, box: box(segment.addr, 1) };
    const inside = segment.blocks.find((i) => at >= d.address(i) && at < d.address(i) + d.size[i]) ??
      segment.blocks.find((i) => Math.abs(at - d.address(i)) < slack);
    if (inside !== undefined)
      return { segment, span: inside, box: box(d.address(inside), d.size[inside]) };
    const hole = segment.holes.find(([address, bytes]) => at >= address && at < address + bytes);
    return { segment, hole, box: hole ? box(...hole) : box(at, 1) };
  }

  describeSegment(segment) {
    return facts([
      ["segment", formatAddress(segment.addr)],
      ["size", formatBytes(segment.size)],
      ["allocated", formatBytes(segment.live)],
      ["pending free", segment.waits ? formatBytes(segment.waits) : null],
      ["free", `${formatBytes(segment.free)} in ${formatNumber(segment.holes.length, "piece")}`],
      ["blocks", segment.blocks.length],
      ["pool", segment.small ? "small" : "large"],
    ]);
  }

  hover(event) {
    const hit = this.hit(event), d = this.device;
    if (!hit)
      return [];
    if (hit.span !== undefined)
      return { target: hit.box, children: [this.describeSpan(hit.span), frameList(this.file, d.stack[hit.span], 12)] };
    return { target: hit.box, children: [
      ...(hit.hole ? [facts([[hit.segment.blocks.length ? "hole, fragmented" : "releasable", formatExact(hit.hole[1])],
        ["address", formatAddress(hit.hole[0])]])] : []), this.describeSegment(hit.segment)] };
  }

  click(event) {
    const hit = this.hit(event);
    this.world.set({ block: hit && hit.span !== undefined ? hit.span : -1 });
  }

  showSide() {
    const { world, device: d, state } = this, e = world.cursor, parts = [];
    parts.push(element("h2", {}, "State"), facts([
      ["allocated, as requested", formatBytes(state.live)], ["cached, pending free", formatBytes(state.waits)],
      ["cached, releasable", formatBytes(state.releasable)], ["cached, fragmented", formatBytes(state.fragmented)],
      ["reserved", formatBytes(state.reserved)], ["segments", formatCount(state.segments.length)],
      ["blocks", formatCount(state.count)]]));
    if (e >= 0)
      parts.push(element("h2", {}, "Event"), this.list.describe(e),
        ...(d.event_action.values[e] === SNAPSHOT ? [] : [frameList(this.file, d.event_stack.values[e])]));
    this.side.replaceChildren(...parts, ...this.describeHeld());
  }

  searched() {
    return this.world.search.active ? formatNumber(this.list.count, "event") : "";
  }

  searchNext(step) {
    const { list, world } = this;
    if (!list.count || !world.search.active)
      return;
    const row = list.rowOf(world.cursor), on = list.eventOf(row) === world.cursor;
    const next = step > 0 ? row + 1 : on ? row - 1 : row;
    const event = list.eventOf((next + list.count) % list.count), span = this.device.spanOf(event);
    world.set({ cursor: event, block: span >= 0 && this.device.isActive(span, event) ? span : -1 });
    $("found").textContent = `${formatCount((next + list.count) % list.count + 1)} of ${formatCount(list.count)} events`;
  }
}
