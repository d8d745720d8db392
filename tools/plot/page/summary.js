/* The main figures in words: the budget, who holds what, the largest holes, and events of note. */
const SUMMARY_ROWS = 10;

class SummaryView extends View {
  constructor(world, tab) {
    super(world, tab);
    this.page = element("div", { class: "summary" });
    this.stage.append(this.page);
    this.side.hidden = true;
    this.fill();
  }

  changed(names) {
    if (names.includes("range") || names.includes("label"))
      this.fill();
  }

  fill() {
    const { world, device: d } = this;
    const range = world.range ? ` (${world.rangeText()})` : "";
    const peak = world.range ? d.peakIn(world.first, world.last) : d.peak;
    this.page.replaceChildren(
      this.panel("Memory at the end", this.budget()),
      this.panel(`Who holds what at the end${range}`, this.holders(world.last)),
      this.panel(`At the peak${range}`, this.holders(peak), () => world.set({ cursor: peak })),
      this.panel(`Largest holes at the end${range}`, this.holes()),
      this.panel("Events of note", this.notable(peak)));
  }

  panel(title, content, go) {
    return element("section", {}, element("h2", go ? { class: "link", onclick: () => {
      go();
      if (this.world.show)
        this.world.show("timeline");
    } } : {}, title), ...content);
  }

  /* The words and figures of `cudamemstat report`. */
  budget() {
    const f = this.device.figures, free = f.fragmented + f.releasable;
    const row = (name, bytes, color) => element("div", { class: "row" },
      element("span", { class: "swatch", style: color ? `background:${color}` : "" }),
      element("span", { class: "name" }, name), element("span", { class: "count" }, formatPercent(bytes, f.reserved)),
      element("span", { class: "bytes" }, formatBytes(bytes)));
    const parts = [["allocated", f.allocated, "#59a14f"], ["cached, pending free", f.pending_free, "#76b7b2"],
      ["cached, releasable", f.releasable, "#a0cbe8"], ["cached, fragmented", f.fragmented, "#e15759"]];
    return [element("div", { class: "bar" }, ...parts.map(([name, bytes, color]) => element("span", {
      title: `${name}: ${formatBytes(bytes)}`, style: `background:${color};width:${f.reserved ? 100 * bytes / f.reserved : 0}%` }))),
    ...parts.map((part) => row(...part)), row("reserved from the driver", f.reserved),
    element("p", { class: "count" }, `${formatNumber(f.blocks, "block")} in ${formatNumber(f.segments, "segment")}; ` +
      `of active blocks ${formatBytes(f.requested)} were requested, ${formatBytes(f.rounding)} are rounding` +
      (free ? `; largest free block ${formatBytes(f.largest_free)}` : "") +
      (this.device.capacity ? `; capacity of the device ${formatBytes(this.device.capacity)}` : "") +
      (this.device.limit ? `; limit ${formatBytes(this.device.limit)}` : ""))];
  }

  holders(cursor) {
    const { world, file } = this, { rows, held } = sumByStack(world, cursor, cursor, cursor);
    const sorted = rows.filter((row) => row.held).sort((a, b) => b.held - a.held), shown = sorted.slice(0, SUMMARY_ROWS);
    const rest = sorted.slice(SUMMARY_ROWS).reduce((sum, row) => sum + row.held, 0);
    return [element("p", { class: "count" }, `${formatBytes(held)} by ${formatNumber(sorted.length, "stack")}`),
    ...shown.map((row) => stackRow({ class: world.label === row.label ? "on" : "", title: file.names[row.label],
      onclick: () => world.pickLabel(row.label) }, world.colors.css(row.stack), file.names[row.label], row.blocks,
    formatBytes(row.held))),
    rest ? element("div", { class: "row" }, element("span", { class: "name count" }, "other stacks"),
      element("span", { class: "bytes" }, formatBytes(rest))) : null];
  }

  holes() {
    const { world, device: d } = this, state = stateAt(d, world.last, "address");
    const holes = state.segments.filter((segment) => segment.blocks.length)
      .flatMap((segment) => segment.holes.map(([address, bytes]) => ({ segment, address, bytes })))
      .sort((a, b) => b.bytes - a.bytes);
    if (!holes.length)
      return [element("p", { class: "count" }, "There are none.")];
    return [element("p", { class: "count" }, `${formatBytes(state.fragmented)} in ${formatNumber(holes.length, "hole")}`),
      ...holes.slice(0, SUMMARY_ROWS).map(({ segment, address, bytes }) => {
        const beside = segment.blocks.find((i) => d.address(i) >= address + bytes) ?? segment.blocks[segment.blocks.length - 1];
        return stackRow({ title: "see the block beside it", onclick: () => this.go("blocks", { cursor: world.last, block: beside }) },
          "var(--hole)", `${formatAddress(address)} in a segment of ${formatBytes(segment.size)}`, null, formatBytes(bytes));
      })];
  }

  go(view, changes) {
    this.world.set(changes);
    if (this.world.show)
      this.world.show(view);
  }

  /* [event, what, size] of notable events. */
  notable(peak) {
    const { world, device: d } = this, rows = [[peak, "peak", d.allocatedAt(peak)]], largest = this.largest();
    const counts = d.event_action.values.reduce((sum, action) => {
      sum[action]++;
      return sum;
    }, new Array(ACTIONS.length).fill(0));
    for (const [event, size] of d.ooms.slice(-SUMMARY_ROWS))
      rows.push([event, "out of memory", size]);
    if (largest >= 0)
      rows.push([largest, "largest request", d.event_size.at(largest)]);
    rows.sort((a, b) => a[0] - b[0]);
    return [element("p", { class: "count" }, `${formatNumber(counts[ALLOC], "allocation")}, ` +
      `${formatNumber(counts[FREE_REQUESTED], "free")}, ${formatNumber(counts[SEGMENT_ALLOC] + counts[SEGMENT_MAP], "segment")} ` +
      `from the driver, ${formatCount(counts[SEGMENT_FREE] + counts[SEGMENT_UNMAP])} returned; out of memory: ${formatCount(counts[OOM])}`),
    ...rows.map(([event, what, size]) => element("div", { class: "row", onclick: () => this.go("timeline", { cursor: event }) },
      element("span", { class: what === "out of memory" ? "alarm" : "" }, what),
      element("span", { class: "name count" }, event < 0 ? "before the first event"
        : `event ${formatCount(event)}, ${formatTime(d.time(event))}` +
          (d.event_stack.values[event] ? `, ${this.file.lines[d.event_stack.values[event]]}` : "")),
      element("span", { class: "bytes" }, formatBytes(size))))];
  }

  largest() {
    const { world, device: d } = this;
    let best = -1;
    for (let e = Math.max(0, world.first); e <= world.last; e++) {
      if (d.event_action.values[e] === ALLOC && (best < 0 || d.event_size.at(e) > d.event_size.at(best)))
        best = e;
    }
    return best;
  }
}
