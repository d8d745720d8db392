/*
 * The state of the allocator after each event: a segment is a row, a block a part of it. The events are
 * listed on the left; the slider, a click and the arrow keys select one.
 */
const TITLE = "allocator state history";
const ROW_LEAST = 20, ROW_MOST = 44, LABEL = 212, EVENT = 20;

class View {
  constructor(world) {
    Object.assign(this, world);
    const d = this.device;
    Object.assign(this, readSpans(d));
    this.ready = Float64Array.from(d.span_ready, (v) => v === NEVER ? Infinity : v);
    this.segBegin = Int32Array.from(d.seg_begin, (v) => v === BEFORE ? -1 : v);
    this.segEnd = Float64Array.from(d.seg_end, (v) => v === NEVER ? Infinity : v);
    this.colors = colorsOfSpans(this.about, d);
    this.event = d.events - 1;
    this.build();
    this.go(this.event);
  }

  build() {
    const d = this.device;
    this.pad = element("div", { class: "pad", style: `height:${d.events * EVENT}px` });
    this.list = element("div", { id: "events" }, this.pad);
    this.map = element("div", { id: "map" });
    this.slider = element("input", {
      type: "range", min: -1, max: d.events - 1, value: d.events - 1,
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.label = element("span", { class: "bytes" });
    this.stage.append(this.list,
      element("div", { id: "scrub" },
        element("button", { title: "previous event", onclick: () => this.go(this.event - 1) }, "\u2039"),
        this.slider,
        element("button", { title: "next event", onclick: () => this.go(this.event + 1) }, "\u203a"),
        this.label),
      this.map);
    this.spacer = element("div", { style: "position:relative" });
    this.holder = element("div", { style: "position:sticky;top:0;left:0;height:100%;overflow:hidden" });
    this.map.append(this.holder, this.spacer);
    this.canvas = new Canvas(this.holder, (context, w, h) => this.draw(context, w, h));
    this.list.addEventListener("scroll", () => this.drawList());
    this.map.addEventListener("scroll", () => this.canvas.draw());
    new ResizeObserver(() => this.drawList()).observe(this.list);
    tipOver(this.holder, this.tip, (event) => this.hover(event));
    this.holder.addEventListener("click", (event) => this.click(event));
    this.stage.onkeydown = (event) => {
      const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1,
        PageUp: -50, PageDown: 50, Home: -Infinity, End: Infinity }[event.key];
      if (step === undefined || event.target === this.slider)
        return;
      event.preventDefault();
      this.go(Math.max(-1, Math.min(d.events - 1, this.event + step)));
    };
    this.controls.append(element("button", {
      id: "oom", onclick: () => this.nextOom(),
      style: d.ooms.length ? "" : "display:none",
    }, `Out of memory (${d.ooms.length})`),
    element("button", { id: "peak", onclick: () => this.go(Math.max(-1, d.peak)) }, "Peak"));
    notes(this.footer, "arrow keys: step through the events", "click a block: hold it",
      "solid: allocated", "hatched: pending free", "empty: free");
  }

  nextOom() {
    const ooms = this.device.ooms.map(([event]) => event);
    this.go(ooms.find((event) => event > this.event) ?? ooms[0]);
  }

  go(event) {
    const d = this.device;
    this.event = Math.max(-1, Math.min(d.events - 1, event));
    this.slider.value = String(this.event);
    this.state();
    const top = this.event * EVENT, height = this.list.clientHeight;
    if (top < this.list.scrollTop || top > this.list.scrollTop + height - EVENT)
      this.list.scrollTop = Math.max(0, top - height / 2);
    this.drawList();
    this.row = Math.max(ROW_LEAST, Math.min(ROW_MOST,
      Math.floor((this.map.clientHeight - 20) / Math.max(1, this.segments.length))));
    this.spacer.style.height =
      Math.max(0, this.segments.length * this.row + 30 - this.map.clientHeight) + "px";
    this.canvas.draw();
    this.showSide();
  }

  /* The segments at that moment by address, and their blocks. */
  state() {
    const d = this.device, segments = [];
    for (let s = 0; s < d.seg_addr.length; s++) {
      if (this.segBegin[s] <= this.event && this.segEnd[s] > this.event)
        segments.push({ s, addr: d.seg_addr[s], size: d.seg_size[s], blocks: [], live: 0, wait: 0 });
    }
    segments.sort((a, b) => a.addr - b.addr);
    /* Adjacent pages are drawn as one segment. */
    let kept = 0;
    for (const segment of segments) {
      const last = segments[kept - 1];
      if (kept && d.seg_paged[segment.s] && d.seg_paged[last.s] && last.addr + last.size === segment.addr)
        last.size += segment.size;
      else
        segments[kept++] = segment;
    }
    segments.length = kept;
    const starts = segments.map((segment) => segment.addr);
    this.live = this.wait = this.reserved = 0;
    for (const segment of segments)
      this.reserved += segment.size;
    for (let i = 0; i < this.begin.length && this.begin[i] <= this.event; i++) {
      if (this.ready[i] <= this.event)
        continue;
      const at = lastAtMost(starts, d.span_addr[i]);
      const waits = this.freed[i] <= this.event;
      if (waits)
        this.wait += d.span_size[i];
      else
        this.live += d.span_size[i];
      if (at < 0 || d.span_addr[i] >= segments[at].addr + segments[at].size)
        continue;
      segments[at].blocks.push(i);
      segments[at][waits ? "wait" : "live"] += d.span_size[i];
    }
    this.segments = segments;
    this.largest = segments.reduce((most, segment) => Math.max(most, segment.size), 1);
  }

  /* Only the visible lines exist. */
  drawList() {
    const d = this.device, first = Math.max(0, Math.floor(this.list.scrollTop / EVENT) - 5);
    const last = Math.min(d.events, first + Math.ceil(this.list.clientHeight / EVENT) + 10);
    const lines = [];
    for (let e = first; e < last; e++) {
      const action = d.event_action[e], stack = d.event_stack[e];
      const found = this.search.active &&
        this.search.matches(stack, d.event_annotation[e], d.event_addr[e]);
      const line = element("div", {
        class: "event" + (e === this.event ? " on" : "") + (action === OOM ? " oom" : "") +
          (found ? " found" : ""),
        style: `top:${e * EVENT}px`,
        onclick: () => this.go(e),
      },
      element("span", { class: "what" }, ACTIONS[action].replace("_", " ")),
      element("span", { class: "size" }, formatBytes(d.event_size[e])),
      element("span", { class: "name" }, stack ? this.about.labels[stack]
        : action === OOM || action === SNAPSHOT ? "" : formatAddress(d.event_addr[e])),
      element("span", { class: "count" }, formatCount(e)));
      tipOver(line, this.tip, () => [this.describeEvent(e),
        ...(action === SNAPSHOT ? [] : [frameList(this.about, stack, 14)])]);
      lines.push(line);
    }
    this.pad.replaceChildren(...lines);
  }

  describeEvent(e) {
    const d = this.device, oom = d.event_action[e] === OOM;
    if (d.event_action[e] === SNAPSHOT)
      return facts([
        ["event", `${formatCount(e)}: a copy was taken`],
        ["active", formatBytes(d.event_size[e])],
        ["time", formatTime(d.event_time[e])],
      ]);
    return facts([
      ["event", `${formatCount(e)}: ${ACTIONS[d.event_action[e]]}`],
      ["size", formatExact(d.event_size[e])],
      [oom ? "free on the device" : "address",
        !oom ? formatAddress(d.event_addr[e])
          : d.event_addr[e] === FREE_UNKNOWN ? "unknown" : formatBytes(d.event_addr[e])],
      ["time", formatTime(d.event_time[e])],
      ["range", this.about.texts[d.event_annotation[e]]],
      ["thread", d.event_thread[e] || null],
    ]);
  }

  draw(context, width, height) {
    const top = this.map.scrollTop, first = Math.floor(top / this.row);
    const wide = this.wide = Math.max(80, width - LABEL - 20);
    if (!this.segments.length) {
      write(context, "No memory was reserved at this moment.", 20, 40, cssColor("--faint"),
        "13px system-ui, sans-serif", "left alphabetic");
      return;
    }
    const inks = { faint: cssColor("--faint"), line: cssColor("--line"), panel: cssColor("--panel"),
      accent: cssColor("--accent"), back: cssColor("--back") };
    for (let r = first; r < this.segments.length && r * this.row - top < height; r++)
      this.drawSegment(context, this.segments[r], 8 + r * this.row - top, wide, inks);
  }

  scale(segment) {
    /* In proportion, with a visible minimum. */
    return Math.max(0.04, segment.size / this.largest) * this.wide / segment.size;
  }

  drawSegment(context, segment, y, wide, inks) {
    const d = this.device, scale = this.scale(segment), h = this.row - 5, event = this.event;
    const touched = event >= 0 ? d.event_addr[event] : -1;
    write(context, formatAddress(segment.addr), 10, y + h / 2, inks.faint,
      "11px ui-monospace, Menlo, Consolas, monospace", "left middle");
    write(context, `${formatBytes(segment.size)}  ${Math.round(100 * segment.live / segment.size)}%`,
      LABEL - 10, y + h / 2, inks.faint, "11px system-ui, sans-serif", "right middle");
    context.fillStyle = inks.panel;
    context.fillRect(LABEL, y, segment.size * scale, h);
    for (const i of segment.blocks) {
      const x = LABEL + (d.span_addr[i] - segment.addr) * scale;
      const w = Math.max(0.6, d.span_size[i] * scale);
      const waits = this.freed[i] <= event;
      const dim = this.search.active &&
        !this.search.matches(d.span_stack[i], d.span_annotation[i], d.span_addr[i]);
      context.globalAlpha = dim ? 0.15 : waits ? 0.3 : 1;
      context.fillStyle = this.colors.css(d.span_stack[i]);
      context.fillRect(x, y, w, h);
      if (waits && w > 3)
        this.hatch(context, x, y, w, h);
      context.globalAlpha = 1;
      if (w > 4) {
        context.fillStyle = inks.back;
        context.fillRect(x + w - 0.7, y, 0.7, h);
      }
      if (d.span_addr[i] === touched || i === this.held) {
        context.strokeStyle = inks.accent;
        context.lineWidth = 2;
        context.strokeRect(x - 1, y - 1, Math.max(4, w) + 1, h + 2);
        context.lineWidth = 1;
      }
    }
    context.strokeStyle = touched === segment.addr && segment.s !== undefined &&
      this.segBegin[segment.s] === event ? inks.accent : inks.line;
    context.strokeRect(LABEL - 0.5, Math.round(y) - 0.5, segment.size * scale + 1, h + 1);
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

  hit(event) {
    const [left, top] = this.canvas.place(event);
    const x = left - LABEL, y = top + this.map.scrollTop - 8;
    const segment = this.segments[Math.floor(y / this.row)];
    if (!segment || y < 0)
      return null;
    const at = segment.addr + x / this.scale(segment), slack = 1.5 / this.scale(segment);
    if (x < 0 || at >= segment.addr + segment.size)
      return { segment: x < 0 ? segment : null };
    const d = this.device;
    let best = null;
    for (const i of segment.blocks) {
      if (at >= d.span_addr[i] && at < d.span_addr[i] + d.span_size[i])
        return { segment, span: i };
      if (Math.abs(at - d.span_addr[i]) < slack)
        best = i;
    }
    return best === null ? { segment, free: true } : { segment, span: best };
  }

  describeBlock(i) {
    const d = this.device;
    const when = (event) => event < 0 ? "before the first event" : `event ${formatCount(event)}`;
    return facts([
      ["block", formatAddress(d.span_addr[i])],
      ["size", formatExact(d.span_size[i])],
      ["state", this.freed[i] <= this.event ? "pending free" : "allocated"],
      ["allocated at", when(this.begin[i])],
      ["freed", this.freed[i] === Infinity ? null : when(this.freed[i])],
      ["range", this.about.texts[d.span_annotation[i]]],
    ]);
  }

  describeSegment(segment) {
    const d = this.device, s = segment.s;
    return facts([
      ["segment", formatAddress(segment.addr)],
      ["size", formatBytes(segment.size)],
      ["allocated", formatBytes(segment.live)],
      ["pending free", segment.wait ? formatBytes(segment.wait) : null],
      ["free", formatBytes(segment.size - segment.live - segment.wait)],
      ["blocks", segment.blocks.length],
      ["pool", d.seg_small[s] ? "small" : "large"],
    ]);
  }

  hover(event) {
    const hit = this.hit(event), d = this.device;
    if (!hit || !hit.segment)
      return [];
    if (hit.span !== undefined)
      return [this.describeBlock(hit.span), frameList(this.about, d.span_stack[hit.span], 12)];
    return [this.describeSegment(hit.segment),
      ...(hit.free ? [element("div", { class: "count" }, "this part is free")] : [])];
  }

  click(event) {
    const hit = this.hit(event);
    this.held = hit && hit.span;
    this.showSide();
    this.canvas.draw();
  }

  showSide() {
    const d = this.device, e = this.event, parts = [];
    this.label.textContent = e < 0 ? "before the first event"
      : `${formatCount(e)} of ${formatCount(d.events - 1)} \u00b7 ${formatTime(d.event_time[e])}`;
    parts.push(element("h2", {}, "State"), facts([
      ["allocated", formatBytes(this.live)], ["pending free", formatBytes(this.wait)],
      ["free, reserved", formatBytes(Math.max(0, this.reserved - this.live - this.wait))],
      ["reserved", formatBytes(this.reserved)], ["segments", formatCount(this.segments.length)]]));
    if (e >= 0)
      parts.push(element("h2", {}, "Event"), this.describeEvent(e),
        ...(d.event_action[e] === SNAPSHOT ? [] : [frameList(this.about, d.event_stack[e])]));
    if (this.held !== undefined && this.held !== null)
      parts.push(element("h2", {}, "Block"), this.describeBlock(this.held),
        frameList(this.about, d.span_stack[this.held]));
    this.side.replaceChildren(...parts);
  }

  searched() {
    const d = this.device;
    let count = 0;
    this.drawList();
    this.canvas.draw();
    if (!this.search.active)
      return "";
    for (let e = 0; e < d.events; e++)
      count += this.search.matches(d.event_stack[e], d.event_annotation[e], d.event_addr[e]);
    return `${formatCount(count)} events`;
  }
}
