/* Memory over time by stack, with the table of stacks beside it. */
const STRIP = 44;

class TimelineView extends View {
  constructor(world, tab) {
    super(world, tab);
    const d = this.device;
    this.table = new StackTable(world);
    if (!d.events && !d.number) {
      this.stage.append(element("p", { class: "empty" }, "No events were recorded on this device."));
      return;
    }
    this.scale = new TimelineScale(d);
    this.scale.lines = this.nearLines();
    this.canvas = new Canvas(this.stage, (context, w, h) => this.draw(context, w, h));
    this.addControls();
    this.addKeys();
    this.listen();
    this.showSide();
  }

  /* A line far above the others would flatten them. */
  nearLines() {
    const d = this.device, near = (bytes) => bytes > 0 && bytes <= 2 * d.allocatedAt(d.peak);
    const reserved = d.reservedBytes.reduce((a, b) => Math.max(a, b), 0);
    return { reserved: near(reserved), uncached: Boolean(d.event_uncached), capacity: near(d.capacity), limit: near(d.limit) };
  }

  addControls() {
    const { scale, device: d } = this;
    this.controls.append(
      buttonGroup([["events", "Events", "one step an event"], ["time", "Time", "time as it passed"]], "events",
        (value) => {
          scale.turn(value === "time");
          this.canvas.draw();
        }),
      buttonGroup([["zero", "From 0"], ["fit", "Fit", "bytes of what is visible"]], "zero", (value) => {
        scale.fit = value === "fit";
        scale.brush = null;
        this.canvas.draw();
      }),
      ...["reserved", "uncached", "capacity", "limit"].filter((name) => name === "reserved" || d[name] ||
        name === "uncached" && d.event_uncached).map((name) =>
        checkbox(name, name === "uncached" ? "outside the cache" : name, scale.lines[name], (on) => {
          scale.lines[name] = on;
          scale.brush = null;
          this.canvas.draw();
        })),
      element("button", { id: "all", title: "all events (0)", onclick: () => this.reset() }, "All"),
      element("button", { id: "peak", title: "the peak (p)", onclick: () => this.toPeak() }, "Peak"),
      this.zoomButton = element("button", { id: "zoom", title: "fill the picture with the range (z)",
        hidden: "", onclick: () => this.toRange() }, "Zoom to range"));
    notes(this.footer, "drag: select a range", "wheel: zoom", "Shift and drag: move", "wheel or drag on the left axis: zoom bytes",
      "?: all keys");
  }

  addKeys() {
    const move = (from, to) => () => {
      const { scale } = this, span = scale.x1 - scale.x0;
      this.zoomTo(scale.x0 + from * span, scale.x1 + to * span);
    };
    this.keys = [
      [["ArrowLeft"], "move to earlier events", move(-0.2, -0.2)],
      [["ArrowRight"], "move to later events", move(0.2, 0.2)],
      [["+", "="], "zoom in", move(0.2, -0.2)],
      [["-"], "zoom out", move(-0.3, 0.3)],
      [["0"], "all events and bytes", () => this.reset()],
      [["p"], "the peak", () => this.toPeak()],
      [["z"], "fill the picture with the range", () => this.toRange()],
      [["y"], "bytes from 0, or of what is visible", () => this.press(this.scale.fit ? "zero" : "fit")],
      [["t"], "events or time", () => this.press(this.scale.byTime ? "events" : "time")],
    ];
    this.gestures = [["drag", "select a range of events"], ["click", "hold the allocation, and look at that event"],
      ["wheel", "zoom; upon the left axis: zoom bytes"], ["Shift and drag", "move"],
      ["double click", "all events and bytes"]];
  }

  press(value) {
    this.controls.querySelector(`[data-value=${value}]`).click();
  }

  zoomTo(x0, x1) {
    this.scale.setRange(x0, x1);
    this.canvas.draw();
  }

  reset() {
    this.scale.brush = null;
    this.zoomTo(0, this.scale.extent());
  }

  toPeak() {
    const { scale, device: d, world } = this, event = world.range ? d.peakIn(world.first, world.last) : d.peak;
    const x = scale.positionOf(event), span = (scale.x1 - scale.x0) / 4;
    world.set({ cursor: event });
    this.zoomTo(x - span / 2, x + span / 2);
  }

  toRange() {
    const { world, scale } = this;
    if (!world.range)
      return;
    scale.brush = null;
    this.zoomTo(scale.positionOf(world.first), scale.positionOf(world.last) + (scale.byTime ? 0 : 1));
  }

  changed(names) {
    if (!this.canvas)
      return;
    if (names.includes("block") && this.world.block >= 0)
      this.reveal(this.world.block);
    this.showSide();
    this.canvas.draw();
  }

  shown() {
    super.shown();
    if (this.canvas && this.world.block >= 0)
      this.reveal(this.world.block);
  }

  /* Brings an allocation into the picture. */
  reveal(i) {
    const { scale, device: d } = this, from = scale.positionOf(d.begin[i]);
    const to = d.freed[i] === END ? scale.extent() : scale.positionOf(d.freed[i]);
    if (to >= scale.x0 && from <= scale.x1)
      return;
    const half = Math.max(scale.x1 - scale.x0, (to - from) * 1.4) / 2, middle = (from + to) / 2;
    this.zoomTo(middle - half, middle + half);
  }

  draw(context, width, height) {
    const left = width < 500 ? 62 : 74, { scale } = this;
    const plot = this.plot = { x: left, y: 12, w: Math.max(10, width - left - 14), h: Math.max(10, height - 12 - 26 - STRIP - 14) };
    const count = Math.max(1, Math.round(plot.w * this.canvas.ratio)), rows = Math.max(1, Math.round(plot.h * this.canvas.ratio));
    this.bands = new Bands(this.world, scale.edges(count));
    scale.place(plot, this.bands.sample);
    this.bands.arrange(rows / (scale.high - scale.low));
    scale.drawGrid(context);
    this.drawBands(context, count, rows);
    scale.drawLines(context, this.bands.sample);
    this.drawMarks(context);
    scale.labels.draw(context);
    scale.drawAxes(context);
    this.drawStrip(context, width, height);
  }

  /* The colours of what is drawn, as pixels: [fill, edge] bright and faded. */
  tones() {
    const pack = ([r, g, b], alpha) => (alpha << 24 | b << 16 | g << 8 | r) >>> 0;
    const back = parseColor(cssColor("--back"));
    const fade = (rgb) => rgb.map((c, i) => Math.round(c * 0.16 + back[i] * 0.84));
    const dark = (rgb) => rgb.map((c) => Math.round(c * 0.72));
    const tone = (rgb) => [pack(rgb, 255), pack(dark(rgb), 255), pack(fade(rgb), 255), pack(fade(dark(rgb)), 255)];
    return { stacks: this.world.colors.rgb.map(tone), others: tone(NEUTRAL),
      waits: pack(parseColor(cssColor("--faint")), 90), held: pack(parseColor(cssColor("--ink")), 255) };
  }

  isGroupDim(label) {
    const { world, file } = this;
    if (world.label >= 0 && label !== world.label)
      return true;
    return world.search.active && !(world.search.stacks &&
      file.labelOf.some((each, stack) => each === label && world.search.stacks[stack]));
  }

  drawBands(context, count, rows) {
    const { bands, scale, world, device: d } = this, image = context.createImageData(count, rows);
    const pixels = new Uint32Array(image.data.buffer), tones = this.tones();
    const perByte = rows / (scale.high - scale.low), rowOf = (bytes) =>
      Math.max(0, Math.min(rows, Math.round((bytes - scale.low) * perByte)));
    const dims = new Map(bands.singles.map((i) => [i, world.isDim(i)]));
    const groupDims = bands.groups.map((label) => this.isGroupDim(label));
    const enough = 15 * this.canvas.ratio;
    this.runs = new Map();
    let row = 0;
    bands.each((c, sum) => {
      const to = rowOf(d.activeAt(bands.sample[c]));
      for (let y = Math.max(row, rowOf(sum)); y < to; y++) {
        if ((c + y) % 7 < 2)
          pixels[(rows - 1 - y) * count + c] = tones.waits;
      }
      row = 0;
    }, (c, from, to, single, group) => {
      const end = rowOf(to), alone = single >= 0;
      if (end <= row)
        return;
      const label = alone ? 0 : bands.groups[group];
      const tone = alone ? tones.stacks[d.stack[single]]
        : label < 0 ? tones.others : tones.stacks[this.file.stackOfLabel[label]];
      const dim = (alone ? dims.get(single) : groupDims[group]) ? 2 : 0;
      for (let y = row; y < end; y++)
        pixels[(rows - 1 - y) * count + c] = tone[dim + (!alone && (c + y) % 6 === 0 ? 1 : 0)];
      if (end - row >= 4)
        pixels[(rows - end) * count + c] = single === world.block && alone ? tones.held : tone[dim + 1];
      if (single === world.block && alone)
        pixels[(rows - 1 - row) * count + c] = tones.held;
      if (end - row >= enough && !dim)
        this.noteRun(alone ? single : -1 - group, c, row, end);
      row = end;
    });
    const layer = document.createElement("canvas");
    layer.width = count;
    layer.height = rows;
    layer.getContext("2d").putImageData(image, 0, 0);
    const { x, y, w, h } = this.plot;
    context.drawImage(layer, x, y, w, h);
    this.drawNames(context);
  }

  /* Remembers where a band has nearly the same height over enough columns for its name. */
  noteRun(key, column, from, to) {
    const run = this.runs.get(key);
    if (run && run.last === column - 1 && Math.abs(run.from - from) < 3 && Math.abs(run.to - to) < 3)
      run.last = column;
    else if (!run || run.last - run.first < 60)
      this.runs.set(key, { first: column, last: column, from, to });
  }

  namesOf(key) {
    const { device: d, file, bands } = this;
    if (key < 0) {
      const label = bands.groups[-1 - key];
      return label < 0 ? ["other stacks"] : [file.names[label], file.callers[file.stackOfLabel[label]]];
    }
    const stack = d.stack[key], size = formatBytes(d.size[key]);
    const names = file.stacks[stack].length ? [file.lines[stack], file.callers[stack]] : [];
    return [...names.map((name) => name + "  " + size), size];
  }

  drawNames(context) {
    const { ratio } = this.canvas, { x, y, h } = this.plot;
    context.font = AXIS_FONT;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const [key, run] of this.runs) {
      const w = (run.last - run.first) / ratio - 10;
      const text = w < 40 ? "" : this.namesOf(key).find((each) => context.measureText(each).width <= w);
      if (!text)
        continue;
      const label = key < 0 ? this.bands.groups[-1 - key] : -1;
      const rgb = key >= 0 ? this.world.colors.rgb[this.device.stack[key]]
        : label < 0 ? NEUTRAL : this.world.colors.rgb[this.file.stackOfLabel[label]];
      context.fillStyle = inkOn(rgb);
      context.fillText(text, x + run.first / ratio + 6, y + h - (run.from + run.to) / 2 / ratio);
    }
  }

  drawMarks(context) {
    const { scale, plot, device: d, world } = this;
    context.save();
    context.beginPath();
    context.rect(plot.x, plot.y, plot.w, plot.h);
    context.clip();
    if (world.range || this.drag?.range)
      this.drawRange(context, this.drag?.range || world.range);
    const font = "600 11px system-ui, sans-serif", alarm = cssColor("--alarm"), back = cssColor("--back");
    const failed = d.ooms.map(([event, size]) => [scale.px(scale.positionOf(event)), size])
      .filter(([x]) => x >= plot.x && x <= plot.x + plot.w);
    context.fillStyle = alarm;
    for (const [x] of failed)
      context.fillRect(x - 0.75, plot.y, 1.5, plot.h);
    for (const [x, size] of failed) {
      scale.labels.put(context, "out of memory: " + formatBytes(size), alarm, font, [18, 36, 54].flatMap((y) =>
        [[x + 5, plot.y + y, "left top"], [x - 5, plot.y + y, "right top"]]), back);
    }
    context.fillStyle = cssColor("--accent");
    context.fillRect(Math.round(scale.px(scale.positionOf(world.cursor))), plot.y, 1, plot.h);
    context.restore();
  }

  /* Draws a veil over what is outside the range. */
  drawRange(context, [first, last]) {
    const { scale, plot } = this, from = scale.px(scale.positionOf(first));
    const to = scale.px(scale.positionOf(last) + (scale.byTime ? 0 : 1));
    context.fillStyle = cssColor("--back");
    context.globalAlpha = 0.6;
    context.fillRect(plot.x, plot.y, Math.max(0, from - plot.x), plot.h);
    context.fillRect(to, plot.y, Math.max(0, plot.x + plot.w - to), plot.h);
    context.globalAlpha = 1;
    context.fillStyle = cssColor("--accent");
    for (const x of [from, to])
      context.fillRect(x - 1, plot.y, 2, plot.h);
  }

  /* The whole axis in small, with the visible part marked. */
  drawStrip(context, width, height) {
    const { scale, plot, device: d } = this, extent = scale.extent();
    const strip = this.strip = { x: plot.x, y: height - STRIP - 6, w: plot.w, h: STRIP };
    if (!this.tops || this.tops.length !== Math.ceil(strip.w) || this.topsByTime !== scale.byTime) {
      const whole = Object.assign(new TimelineScale(d), { byTime: scale.byTime, x0: 0, x1: extent });
      const { sample } = new Bands(this.world, whole.edges(Math.ceil(strip.w)));
      this.tops = Float64Array.from(sample, (event) => d.allocatedAt(event));
      this.topsByTime = scale.byTime;
    }
    const most = this.tops.reduce((a, b) => Math.max(a, b), 1), at = (x) => strip.x + x / extent * strip.w;
    context.fillStyle = cssColor("--panel");
    context.fillRect(strip.x, strip.y, strip.w, strip.h);
    context.fillStyle = cssColor("--faint");
    this.tops.forEach((top, c) => {
      const h = top / most * (strip.h - 4);
      context.fillRect(strip.x + c, strip.y + strip.h - h, 1, h);
    });
    context.fillStyle = cssColor("--alarm");
    for (const [event] of d.ooms)
      context.fillRect(at(scale.positionOf(event)), strip.y, 1.5, strip.h);
    const from = at(scale.x0), to = at(scale.x1);
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

  /* What is at a place of the picture: its column, event and band. */
  hit(pointer) {
    const { plot, bands, scale } = this, [x, y] = this.canvas.place(pointer);
    if (!bands || x < plot.x || x >= plot.x + plot.w || y < plot.y || y > plot.y + plot.h)
      return null;
    const c = Math.min(bands.count - 1, Math.floor((x - plot.x) / plot.w * bands.count));
    return { c, event: bands.sample[c], band: bands.at(c, scale.bytesAt(y)) };
  }

  /* The rectangle of a band in the window. */
  place(hit) {
    const { bands, plot, scale } = this, { single, from, to } = hit.band;
    const k = bands.singles.indexOf(single), wide = plot.w / bands.count;
    const [first, last] = k < 0 ? [hit.c, hit.c + 1] : [bands.starts[k], bands.ends[k]];
    const top = Math.max(plot.y, scale.py(to)), bottom = Math.min(plot.y + plot.h, scale.py(from));
    return this.canvas.inWindow([plot.x + first * wide, top, (last - first) * wide, bottom - top]);
  }

  hover(pointer) {
    const hit = this.hit(pointer);
    if (!hit)
      return [];
    if (!hit.band)
      return [this.describeLevel(hit.event)];
    const { single, group, from, to } = hit.band, d = this.device;
    if (single >= 0)
      return { target: this.place(hit), children: [this.describeSpan(single), frameList(this.file, d.stack[single], 10)] };
    const label = this.bands.groups[group];
    return { target: this.place(hit), children: [
      element("strong", {}, label < 0 ? "other stacks" : this.file.names[label]),
      facts([["small allocations", formatExact(to - from)], ["event", formatCount(Math.max(0, hit.event))],
        ["time", formatTime(d.time(hit.event))], ["in the picture", formatCount(this.bands.counts[group])]]),
      element("div", { class: "count" }, "zoom in to see them one by one"),
      ...(label < 0 ? [] : [frameList(this.file, this.file.stackOfLabel[label], 6)])] };
  }

  describeLevel(event) {
    const d = this.device;
    return facts([
      ["event", event < 0 ? "start" : formatCount(event)], ["time", formatTime(d.time(event))],
      ["allocated", formatBytes(d.allocatedAt(event))],
      ["pending free", formatBytes(Math.max(0, d.activeAt(event) - d.allocatedAt(event)))],
      ["reserved", formatBytes(d.reservedAfter(event))],
    ]);
  }

  click(pointer) {
    const hit = this.hit(pointer);
    if (!hit)
      return;
    const single = hit.band ? hit.band.single : -1;
    this.world.set({ cursor: hit.event, block: single });
    if (hit.band && single < 0 && this.bands.groups[hit.band.group] >= 0)
      this.world.pickLabel(this.bands.groups[hit.band.group]);
  }

  listen() {
    const { node } = this.canvas;
    node.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    node.addEventListener("pointerdown", (event) => this.dragStart(event));
    tipOver(node, this.tip, (event) => this.drag ? this.dragMove(event) : this.hover(event));
    node.addEventListener("pointerup", (event) => this.dragEnd(event));
    node.addEventListener("pointercancel", () => {
      this.drag = null;
    });
    node.addEventListener("dblclick", () => this.reset());
  }

  wheel(event) {
    const [x, y] = this.canvas.place(event), { scale, plot } = this;
    const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004);
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = event.deltaX / plot.w * (scale.x1 - scale.x0);
      this.zoomTo(scale.x0 + shift, scale.x1 + shift);
    } else if (x < plot.x && y < plot.y + plot.h) {
      const at = scale.bytesAt(y), low = Math.max(0, at - (at - scale.low) * factor);
      scale.brush = [low, Math.max(low + 512, at + (scale.high - at) * factor)];
      this.canvas.draw();
    } else {
      const at = scale.positionAt(x);
      this.zoomTo(at - (at - scale.x0) * factor, at + (scale.x1 - at) * factor);
    }
  }

  dragStart(event) {
    const [x, y] = this.canvas.place(event), { plot, strip, scale } = this;
    if (!plot || event.button)
      return;
    const kind = y >= strip.y ? "strip" : x < plot.x ? "bytes" : event.shiftKey ? "move" : "range";
    this.drag = { kind, x, y, x0: scale.x0, x1: scale.x1, moved: false };
    this.canvas.node.setPointerCapture(event.pointerId);
    if (kind === "strip")
      this.moveStrip(x);
  }

  dragMove(event) {
    const { drag, scale, plot } = this, [x, y] = this.canvas.place(event);
    drag.moved ||= Math.abs(x - drag.x) > 3 || Math.abs(y - drag.y) > 3;
    if (drag.kind === "strip") {
      this.moveStrip(x);
    } else if (drag.moved && drag.kind === "move") {
      const shift = (drag.x - x) / plot.w * (drag.x1 - drag.x0);
      this.zoomTo(drag.x0 + shift, drag.x1 + shift);
    } else if (drag.moved && drag.kind === "range") {
      const within = (px) => scale.eventAt(scale.positionAt(Math.max(plot.x, Math.min(plot.x + plot.w, px))));
      drag.range = [within(Math.min(x, drag.x)), within(Math.max(x, drag.x))];
      this.canvas.draw();
    }
    return [];
  }

  dragEnd(event) {
    const { drag, scale, world } = this;
    this.drag = null;
    if (!drag)
      return;
    const y = this.canvas.place(event)[1];
    if (drag.kind === "bytes" && drag.moved && Math.abs(y - drag.y) > 3) {
      const ends = [drag.y, y].map((each) => Math.max(0, scale.bytesAt(each))).sort((a, b) => a - b);
      scale.brush = [ends[0], Math.max(ends[0] + 512, ends[1])];
      this.canvas.draw();
    } else if (drag.range) {
      world.set({ range: drag.range, cursor: this.device.peakIn(...drag.range) });
    } else if (!drag.moved && drag.kind !== "strip" && drag.kind !== "bytes") {
      this.click(event);
    }
  }

  moveStrip(x) {
    const { scale, strip } = this;
    const at = (x - strip.x) / strip.w * scale.extent(), half = (scale.x1 - scale.x0) / 2;
    this.zoomTo(at - half, at + half);
  }

  /* Who holds what at the cursor, and what each stack allocated in the range. */
  showSide() {
    const { world, device: d } = this, { cursor } = world;
    const { rows, held } = sumByStack(world, world.first, world.last, cursor);
    const where = cursor === d.peak ? "At the peak" : cursor < 0 ? "Before the first event"
      : world.range && cursor === d.peakIn(world.first, world.last) ? "At the peak of the range"
        : `After event ${formatCount(cursor)}`;
    this.zoomButton.hidden = !world.range;
    this.table.show(rows);
    this.side.replaceChildren(
      element("h2", {}, `${where}: ${formatBytes(held)} allocated`),
      ...(world.range ? [element("p", { class: "count" }, world.rangeText())] : []),
      ...this.describeHeld(), this.table.node);
  }

  searched() {
    const { world, device: d } = this;
    if (!world.search.active)
      return "";
    let bytes = 0, count = 0;
    for (let i = 0; i < d.number; i++) {
      if (world.search.findsSpan(d, i)) {
        count++;
        bytes += d.isLive(i, world.cursor) ? d.size[i] : 0;
      }
    }
    return `${formatNumber(count, "allocation")}, ${formatBytes(bytes)} at the cursor`;
  }

  searchNext(step) {
    const { world, device: d } = this;
    for (let n = 0, i = world.block; n < d.number && world.search.active; n++) {
      i = (i + step + d.number) % d.number;
      if (world.search.findsSpan(d, i)) {
        world.set({ block: i, cursor: Math.max(-1, d.begin[i]) });
        return;
      }
    }
  }
}
