/*
 * Memory over time by stack. Each allocation is a band from its request to its free; bands are stacked in
 * the order of the requests. Each column of pixels shows the state after one event: of the events that
 * share a column, the one after which most was allocated, so that no peak is lost.
 */
const TITLE = "active memory timeline";
const MARGIN = { left: 78, right: 14, top: 14, bottom: 26 };
const STRIP = 54;

class View {
  constructor(world) {
    Object.assign(this, world);
    const d = this.device;
    Object.assign(this, readSpans(d));
    this.byTime = false;
    this.reservedShown = this.isReservedNear();
    this.picked = null;
    this.cursor = d.peak < 0 ? -1 : d.peak;
    this.colors = colorsOfSpans(this.about, d);
    if (!d.bin_event.length && !d.span_addr.length) {
      this.stage.append(element("p", { class: "empty" }, "No events were recorded on this device."));
      this.canvas = null;
      return;
    }
    this.canvas = new Canvas(this.stage, (context, w, h) => this.draw(context, w, h));
    this.addControls();
    this.listen();
    this.reset();
    this.showBreakdown();
    notes(this.footer, "wheel: zoom", "drag: move", "click: hold", "double click: all",
      "arrow keys, + and -: move and zoom");
  }

  addControls() {
    this.controls.append(
      buttonGroup([["events", "Events"], ["time", "Time"]], "events", (value) => {
        const middle = this.eventAt((this.x0 + this.x1) / 2);
        const share = (this.x1 - this.x0) / this.extent();
        this.byTime = value === "time";
        const x = this.xOf(Math.max(0, middle)), half = share * this.extent() / 2;
        this.setRange(x - half, x + half);
      }),
      element("label", { class: "check" }, element("input", {
        type: "checkbox", id: "reserved", ...(this.reservedShown ? { checked: "" } : {}),
        onchange: (event) => {
          this.reservedShown = event.target.checked;
          this.canvas.draw();
        },
      }), "reserved"),
      element("button", { id: "all", onclick: () => this.reset() }, "All"),
      element("button", { id: "peak", onclick: () => this.toPeak() }, "Peak"));
  }

  /* A value far above the others would flatten them. */
  isReservedNear() {
    const d = this.device;
    let most = d.allocated_at_start, reserved = d.reserved_at_start;
    for (let bin = 0; bin < d.bin_event.length; bin++) {
      most = Math.max(most, d.bin_active[bin]);
      reserved = Math.max(reserved, d.bin_reserved[bin]);
    }
    return reserved <= 2 * most;
  }

  /* The axis: event numbers, or milliseconds. */
  extent() {
    const d = this.device, last = d.bin_time.length - 1;
    return this.byTime ? Math.max(d.bin_time[last] || 0, 1e-6) : Math.max(d.events, 1);
  }

  positions() {
    return this.byTime ? this.device.bin_time : this.device.bin_event;
  }

  eventAt(x) {
    const d = this.device;
    if (!this.byTime)
      return Math.min(Math.floor(x), d.events - 1);
    const bin = lastAtMost(d.bin_time, x);
    return bin < 0 ? -1 : d.bin_event[bin];
  }

  xOf(event) {
    return this.byTime ? this.timeOf(event) : event;
  }

  setRange(x0, x1) {
    const extent = this.extent();
    const span = Math.max(Math.min(x1 - x0, extent), this.byTime ? extent / 1e6 : Math.min(8, extent));
    let from = (x0 + x1) / 2 - span / 2;
    from = Math.max(0, Math.min(from, extent - span));
    this.x0 = from;
    this.x1 = from + span;
    this.canvas.draw();
  }

  reset() {
    this.setRange(0, this.extent());
  }

  toPeak() {
    const x = this.xOf(Math.max(0, this.device.peak)), span = (this.x1 - this.x0) / 4;
    this.cursor = this.device.peak;
    this.showBreakdown();
    this.setRange(x - span / 2, x + span / 2);
  }

  /* For each column of pixels its event, and the bin with the totals. */
  columns(count) {
    const position = this.positions(), d = this.device;
    const events = new Int32Array(count), bins = new Int32Array(count);
    const exact = d.bin_event.length === d.events;
    let bin = lastAtMost(position, this.x0);
    for (let c = 0; c < count; c++) {
      const end = this.x0 + (this.x1 - this.x0) * (c + 1) / count;
      let best = bin;
      while (bin + 1 < position.length && position[bin + 1] < end) {
        bin++;
        if (best < 0 || best === bin - 1 && position[best] < end - (this.x1 - this.x0) / count ||
            d.bin_allocated[bin] > d.bin_allocated[best])
          best = bin;
      }
      bins[c] = best;
      const plain = this.byTime ? -2 : Math.min(Math.floor(end - 1e-9), d.events - 1);
      events[c] = best < 0 ? -1 : exact || plain < d.bin_event[best] ? d.bin_event[best] : plain;
      if (c && events[c] < events[c - 1] && best === bins[c - 1])
        events[c] = events[c - 1];
    }
    return { events, bins };
  }

  limits(bins) {
    const d = this.device;
    let most = 1;
    for (const bin of bins) {
      const top = bin < 0 ? d.allocated_at_start : Math.max(d.bin_allocated[bin], d.bin_active[bin]);
      const reserved = bin < 0 ? d.reserved_at_start : d.bin_reserved[bin];
      most = Math.max(most, this.reservedShown ? Math.max(top, reserved) : top);
    }
    return most * 1.06;
  }

  draw(context, width, height) {
    const plot = this.plot = {
      x: MARGIN.left, y: MARGIN.top, w: Math.max(10, width - MARGIN.left - MARGIN.right),
      h: Math.max(10, height - MARGIN.top - MARGIN.bottom - STRIP - 18),
    };
    const ratio = this.canvas.ratio;
    const count = Math.round(plot.w * ratio), rows = Math.round(plot.h * ratio);
    const picture = this.columns(count);
    this.picture = picture;
    this.most = this.limits(picture.bins);
    this.drawGrid(context, plot);
    this.drawBands(context, plot, count, rows, picture);
    this.drawLines(context, plot, count, picture);
    this.drawMarks(context, plot);
    this.drawAxes(context, plot);
    this.drawStrip(context, width, height);
  }

  /* Draws the bands, the rest that is too small for bands, and pending frees. */
  drawBands(context, plot, count, rows, { events, bins }) {
    const d = this.device, image = context.createImageData(count, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const pack = ([r, g, b], alpha) => (alpha << 24 | b << 16 | g << 8 | r) >>> 0;
    const back = parseColor(cssColor("--back"));
    const fade = (rgb) => rgb.map((c, i) => Math.round(c * 0.16 + back[i] * 0.84));
    const dark = (rgb) => rgb.map((c) => Math.round(c * 0.72));
    const active = this.search.active;
    const colors = this.colors.rgb.map((rgb) => [pack(rgb, 255), pack(dark(rgb), 255),
      pack(fade(rgb), 255), pack(fade(dark(rgb)), 255)]);
    const restColor = pack(parseColor(cssColor("--line")), 255);
    const waitColor = pack(parseColor(cssColor("--faint")), 90);
    const scale = rows / this.most, alive = [];
    let next = 0;
    this.runs = new Map();
    for (let c = 0; c < count; c++) {
      const event = events[c];
      let kept = 0;
      if (c && event < events[c - 1]) {
        alive.length = 0;
        next = 0;
      }
      for (const i of alive) {
        if (this.freed[i] > event)
          alive[kept++] = i;
      }
      alive.length = kept;
      for (; next < this.begin.length && this.begin[next] <= event; next++) {
        if (this.freed[next] > event)
          alive.push(next);
      }
      let sum = 0, row = 0;
      for (const i of alive) {
        sum += d.span_size[i];
        const to = Math.min(rows, Math.round(sum * scale));
        if (to <= row)
          continue;
        const tone = colors[d.span_stack[i]];
        const dim = (active && !this.isFound(i)) || (this.picked !== null && !this.isPicked(i));
        const edge = to - row >= 4 || this.begin[i] === event && to - row > 2;
        const fill = tone[dim ? 2 : 0];
        for (let y = row; y < to; y++)
          pixels[(rows - 1 - y) * count + c] = fill;
        if (edge)
          pixels[(rows - to) * count + c] = tone[dim ? 3 : 1];
        if (to - row >= 15 * this.canvas.ratio)
          this.noteRun(i, c, row, to);
        row = to;
      }
      const bin = bins[c];
      const allocated = bin < 0 ? d.allocated_at_start : d.bin_allocated[bin];
      const restTo = Math.min(rows, Math.round(Math.max(allocated, sum) * scale));
      for (; row < restTo; row++)
        pixels[(rows - 1 - row) * count + c] = restColor;
      const activeTo = bin < 0 ? 0 : Math.min(rows, Math.round(d.bin_active[bin] * scale));
      for (; row < activeTo; row++) {
        if ((c + row) % 7 < 2)
          pixels[(rows - 1 - row) * count + c] = waitColor;
      }
    }
    const layer = document.createElement("canvas");
    layer.width = count;
    layer.height = rows;
    layer.getContext("2d").putImageData(image, 0, 0);
    context.drawImage(layer, plot.x, plot.y, plot.w, plot.h);
    this.drawNames(context, plot, count, rows);
  }

  isFound(i) {
    const d = this.device;
    return this.search.matches(d.span_stack[i], d.span_annotation[i], d.span_addr[i]);
  }

  isPicked(i) {
    return this.about.labels[this.device.span_stack[i]] === this.picked;
  }

  /* Labels the bands that are wide enough. */
  noteRun(i, column, from, to) {
    const run = this.runs.get(i);
    if (run && run.last === column - 1 && Math.abs(run.from - from) < 3 && Math.abs(run.to - to) < 3)
      run.last = column;
    else if (!run || run.last - run.first < 60)
      this.runs.set(i, { first: column, last: column, from, to });
  }

  drawNames(context, plot, count, rows) {
    const ratio = this.canvas.ratio;
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const [i, run] of this.runs) {
      const w = (run.last - run.first) / ratio - 10;
      if (w < 50)
        continue;
      const rgb = this.colors.rgb[this.device.span_stack[i]];
      const dim = (this.search.active && !this.isFound(i)) || (this.picked !== null && !this.isPicked(i));
      if (dim)
        continue;
      const stack = this.device.span_stack[i], size = formatBytes(this.device.span_size[i]);
      const names = this.about.stacks[stack].length ? [this.about.labels[stack], this.about.callers[stack]] : [];
      const text = [...names.map((name) => name + "  " + size), size].find(
        (each) => context.measureText(each).width <= w);
      if (!text)
        continue;
      context.fillStyle = inkOn(rgb);
      const y = plot.y + plot.h - (run.from + run.to) / 2 / ratio;
      context.fillText(text, plot.x + run.first / ratio + 6, y);
    }
  }

  y(plot, bytes) {
    return plot.y + plot.h - bytes / this.most * plot.h;
  }

  drawGrid(context, plot) {
    const step = byteStep(this.most, 8);
    context.strokeStyle = cssColor("--grid");
    context.lineWidth = 1;
    context.beginPath();
    for (let v = step; v < this.most; v += step) {
      const y = Math.round(this.y(plot, v)) + 0.5;
      context.moveTo(plot.x, y);
      context.lineTo(plot.x + plot.w, y);
    }
    context.stroke();
  }

  drawLines(context, plot, count, { bins }) {
    if (!this.reservedShown)
      return;
    const d = this.device;
    context.strokeStyle = cssColor("--ink");
    context.lineWidth = 1.2;
    context.setLineDash([5, 3]);
    context.beginPath();
    const name = "reserved from the driver";
    context.font = "11px system-ui, sans-serif";
    const nameWidth = context.measureText(name).width + 4;
    let last = -1, mostBelowName = 0;
    for (let c = 0; c < count; c++) {
      const value = bins[c] < 0 ? d.reserved_at_start : d.bin_reserved[bins[c]];
      const x = plot.x + c / count * plot.w, y = this.y(plot, value);
      if (x < plot.x + nameWidth)
        mostBelowName = Math.max(mostBelowName, value);
      if (c === 0)
        context.moveTo(x, y);
      else if (value !== last) {
        context.lineTo(x, this.y(plot, last));
        context.lineTo(x, y);
      }
      last = value;
    }
    context.lineTo(plot.x + plot.w, this.y(plot, last));
    context.stroke();
    context.setLineDash([]);
    /* At the left: at the right the mark of a request that failed has its text. */
    write(context, name, plot.x + 4, this.y(plot, mostBelowName) - 2, cssColor("--faint"), context.font,
      "left bottom");
  }

  px(plot, x) {
    return plot.x + (x - this.x0) / (this.x1 - this.x0) * plot.w;
  }

  drawMarks(context, plot) {
    context.font = "600 11px system-ui, sans-serif";
    context.textBaseline = "top";
    for (const [event, size] of this.device.ooms) {
      const x = this.px(plot, this.xOf(event));
      if (x < plot.x || x > plot.x + plot.w)
        continue;
      context.fillStyle = cssColor("--alarm");
      context.fillRect(x - 0.75, plot.y, 1.5, plot.h);
      const text = "out of memory: " + formatBytes(size);
      const left = x + 5 + context.measureText(text).width > plot.x + plot.w;
      context.textAlign = left ? "right" : "left";
      context.fillText(text, left ? x - 5 : x + 5, plot.y + 2);
    }
    context.textAlign = "left";
    const x = this.px(plot, this.xOf(Math.max(0, this.cursor)));
    if (x >= plot.x && x <= plot.x + plot.w) {
      context.strokeStyle = cssColor("--accent");
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(Math.round(x) + 0.5, plot.y);
      context.lineTo(Math.round(x) + 0.5, plot.y + plot.h);
      context.stroke();
    }
  }

  drawAxes(context, plot) {
    const step = byteStep(this.most, 8), faint = cssColor("--faint"), font = "11.5px system-ui, sans-serif";
    for (let v = 0; v < this.most; v += step)
      write(context, formatTick(v), plot.x - 8, this.y(plot, v), faint, font, "right middle");
    const wide = decimalStep(this.x1 - this.x0, Math.max(3, plot.w / 130));
    for (let v = Math.ceil(this.x0 / wide) * wide; v <= this.x1; v += wide) {
      const x = this.px(plot, v);
      context.fillRect(Math.round(x), plot.y + plot.h, 1, 4);
      write(context, this.byTime ? formatTime(v) : formatCount(v), x, plot.y + plot.h + 6, faint, font,
        "center top");
    }
    context.strokeStyle = cssColor("--line");
    context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.w + 1, plot.h + 1);
    context.textAlign = "left";
  }

  /* Draws the overview, with the visible part marked. */
  drawStrip(context, width, height) {
    const d = this.device, strip = this.strip = {
      x: MARGIN.left, y: height - STRIP - 8, w: width - MARGIN.left - MARGIN.right, h: STRIP,
    };
    const position = this.positions(), extent = this.extent();
    let most = d.allocated_at_start;
    for (const value of d.bin_allocated)
      most = Math.max(most, value);
    context.fillStyle = cssColor("--panel");
    context.fillRect(strip.x, strip.y, strip.w, strip.h);
    context.fillStyle = cssColor("--faint");
    let bin = -1;
    for (let c = 0; c < strip.w; c++) {
      const end = extent * (c + 1) / strip.w;
      let top = bin < 0 ? d.allocated_at_start : d.bin_allocated[bin];
      while (bin + 1 < position.length && position[bin + 1] < end) {
        bin++;
        top = Math.max(top, d.bin_allocated[bin]);
      }
      const h = most ? top / most * (strip.h - 4) : 0;
      context.fillRect(strip.x + c, strip.y + strip.h - h, 1, h);
    }
    context.fillStyle = cssColor("--alarm");
    for (const [event] of d.ooms)
      context.fillRect(strip.x + this.xOf(event) / extent * strip.w, strip.y, 1.5, strip.h);
    const from = strip.x + this.x0 / extent * strip.w, to = strip.x + this.x1 / extent * strip.w;
    context.fillStyle = cssColor("--back");
    context.globalAlpha = 0.65;
    context.fillRect(strip.x, strip.y, from - strip.x, strip.h);
    context.fillRect(to, strip.y, strip.x + strip.w - to, strip.h);
    context.globalAlpha = 1;
    context.strokeStyle = cssColor("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(from, strip.y, Math.max(2, to - from), strip.h);
    context.lineWidth = 1;
  }

  /* The allocation at a position of the picture, or what else is there. */
  hit(pointer) {
    const plot = this.plot, [x, y] = this.canvas.place(pointer);
    if (!plot || x < plot.x || x >= plot.x + plot.w || y < plot.y || y > plot.y + plot.h)
      return null;
    const count = this.picture.events.length;
    const c = Math.min(count - 1, Math.floor((x - plot.x) / plot.w * count));
    const event = this.picture.events[c], bin = this.picture.bins[c], d = this.device;
    const bytes = (plot.y + plot.h - y) / plot.h * this.most;
    let sum = 0;
    for (let i = 0; i < this.begin.length && this.begin[i] <= event; i++) {
      if (this.freed[i] <= event)
        continue;
      sum += d.span_size[i];
      if (sum > bytes)
        return { event, bin, span: i };
    }
    const allocated = bin < 0 ? d.allocated_at_start : d.bin_allocated[bin];
    const active = bin < 0 ? allocated : d.bin_active[bin];
    return { event, bin, rest: bytes < allocated ? allocated - sum : 0,
      waiting: bytes >= allocated && bytes < active ? active - allocated : 0 };
  }

  timeOf(event) {
    const bin = lastAtMost(this.device.bin_event, event);
    return bin < 0 ? 0 : this.device.bin_time[bin];
  }

  describe(i) {
    const d = this.device, freed = this.freed[i];
    return facts([
      ["size", formatExact(d.span_size[i])],
      ["address", formatAddress(d.span_addr[i])],
      ["from", this.begin[i] < 0 ? "before the first event"
        : `event ${formatCount(this.begin[i])}, ${formatTime(this.timeOf(this.begin[i]))}`],
      ["to", freed === Infinity ? "still allocated"
        : `event ${formatCount(freed)}, ${formatTime(this.timeOf(freed))}` +
          (this.begin[i] < 0 ? "" : `, after ${formatTime(this.timeOf(freed) - this.timeOf(this.begin[i]))}`)],
      ["range", this.about.texts[d.span_annotation[i]]],
      ["thread", d.span_thread[i] || null],
    ]);
  }

  describeLevel(hit) {
    const d = this.device, bin = hit.bin;
    return facts([
      ["event", hit.event < 0 ? "start" : formatCount(hit.event)],
      ["time", formatTime(this.timeOf(hit.event))],
      ["allocated", formatBytes(bin < 0 ? d.allocated_at_start : d.bin_allocated[bin])],
      ["pending free", bin < 0 ? null : formatBytes(d.bin_active[bin] - d.bin_allocated[bin])],
      ["reserved", formatBytes(bin < 0 ? d.reserved_at_start : d.bin_reserved[bin])],
      ["small allocations", hit.rest > 0 ? formatBytes(hit.rest) : null],
    ]);
  }

  hover(event) {
    const hit = this.hit(event);
    if (!hit)
      return [];
    return hit.span === undefined ? [this.describeLevel(hit)] : [this.describe(hit.span),
      frameList(this.about, this.device.span_stack[hit.span], 12)];
  }

  click(event) {
    const hit = this.hit(event);
    if (!hit)
      return;
    this.cursor = hit.event;
    this.held = hit.span;
    this.showBreakdown();
    this.canvas.draw();
  }

  listen() {
    const node = this.canvas.node;
    let drag = null;
    node.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x] = this.canvas.place(event);
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const shift = event.deltaX / this.plot.w * (this.x1 - this.x0);
        this.setRange(this.x0 + shift, this.x1 + shift);
        return;
      }
      const at = this.x0 + (x - this.plot.x) / this.plot.w * (this.x1 - this.x0);
      const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004);
      this.setRange(at - (at - this.x0) * factor, at + (this.x1 - at) * factor);
    }, { passive: false });
    node.addEventListener("pointerdown", (event) => {
      const [x, y] = this.canvas.place(event), strip = y >= this.strip.y;
      drag = { x: event.clientX, x0: this.x0, x1: this.x1, strip, moved: false };
      node.setPointerCapture(event.pointerId);
      if (strip)
        this.moveStrip(x);
    });
    tipOver(node, this.tip, (event) => {
      if (!drag)
        return this.hover(event);
      if (Math.abs(event.clientX - drag.x) > 3)
        drag.moved = true;
      if (drag.strip) {
        this.moveStrip(this.canvas.place(event)[0]);
      } else if (drag.moved) {
        const shift = (drag.x - event.clientX) / this.plot.w * (drag.x1 - drag.x0);
        this.setRange(drag.x0 + shift, drag.x1 + shift);
      }
      return [];
    });
    node.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved && !drag.strip)
        this.click(event);
      drag = null;
    });
    node.addEventListener("dblclick", () => this.reset());
    this.stage.onkeydown = (event) => {
      const span = this.x1 - this.x0;
      const moves = { ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2], "+": [0.2, -0.2],
        "=": [0.2, -0.2], "-": [-0.3, 0.3] };
      const move = moves[event.key];
      if (!move)
        return;
      event.preventDefault();
      this.setRange(this.x0 + move[0] * span, this.x1 + move[1] * span);
    };
  }

  moveStrip(x) {
    const at = (x - this.strip.x) / this.strip.w * this.extent(), half = (this.x1 - this.x0) / 2;
    this.setRange(at - half, at + half);
  }

  /* Lists the stacks that hold memory at the cursor, and the clicked allocation. */
  showBreakdown() {
    const d = this.device, sums = new Map(), about = this.about;
    let drawn = 0;
    for (let i = 0; i < this.begin.length && this.begin[i] <= this.cursor; i++) {
      if (this.freed[i] <= this.cursor)
        continue;
      const caller = about.labels[d.span_stack[i]];
      const sum = sums.get(caller) || { bytes: 0, count: 0, stack: d.span_stack[i] };
      sum.bytes += d.span_size[i];
      sum.count++;
      drawn += d.span_size[i];
      sums.set(caller, sum);
    }
    const bin = lastAtMost(d.bin_event, this.cursor);
    const total = bin < 0 ? d.allocated_at_start : Math.max(drawn, d.bin_event[bin] === this.cursor ? d.bin_allocated[bin] : drawn);
    const where = this.cursor === d.peak ? "At the peak" : `After event ${formatCount(this.cursor)}`;
    const list = element("div", { id: "breakdown" });
    const rows = [...sums].sort((a, b) => b[1].bytes - a[1].bytes);
    for (const [caller, sum] of rows.slice(0, 40))
      list.append(stackRow({
        class: "row" + (this.picked === caller ? " on" : ""), title: caller,
        onclick: () => {
          this.picked = this.picked === caller ? null : caller;
          this.showBreakdown();
          this.canvas.draw();
        },
      }, this.colors.css(sum.stack), caller, sum.count, formatBytes(sum.bytes)));
    if (total > drawn)
      list.append(stackRow({}, "var(--line)", "allocations too small to draw", null,
        formatBytes(total - drawn)));
    if (rows.length > 40)
      list.append(element("div", { class: "count" }, `and ${rows.length - 40} more`));
    const held = this.held === undefined ? [] : [element("h2", {}, "Clicked"), this.describe(this.held),
      frameList(about, d.span_stack[this.held])];
    this.side.replaceChildren(
      element("h2", {}, `${where}: ${formatBytes(total)} allocated`), list, ...held);
  }

  searched() {
    if (!this.canvas)
      return "";
    this.canvas.draw();
    if (!this.search.active)
      return "";
    let bytes = 0, count = 0;
    for (let i = 0; i < this.begin.length; i++) {
      if (this.isFound(i)) {
        count++;
        if (this.begin[i] <= this.cursor && this.freed[i] > this.cursor)
          bytes += this.device.span_size[i];
      }
    }
    return `${formatCount(count)} allocations, ${formatBytes(bytes)} at the cursor`;
  }
}
