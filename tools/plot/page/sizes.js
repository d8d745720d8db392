/*
 * Histograms by size, in powers of two: requests of the range, blocks allocated now, their rounding,
 * and free blocks.
 */
const CLASSES = 48;
const PANELS = [
  { name: "Requests", columns: ["asked", "asked_bytes"], color: 0 },
  { name: "Allocated now", columns: ["live", "live_bytes"], color: 2 },
  { name: "Lost to rounding, by requested size", columns: ["waste_bytes", "waste_bytes"], color: 3 },
  { name: "Free blocks in reserved memory", columns: ["free", "free_bytes"], color: 4 },
];

class SizesView extends View {
  constructor(world, tab) {
    super(world, tab);
    this.unit = "bytes";
    this.held = -1;
    this.canvas = new Canvas(this.stage, (context, w, h) => this.draw(context, w, h));
    this.controls.append(buttonGroup([["bytes", "Bytes"], ["count", "Number"]], "bytes", (value) => {
      this.unit = value;
      this.canvas.draw();
    }));
    this.keys = [[["b"], "bytes or number", () =>
      this.controls.querySelector(`[data-value=${this.unit === "bytes" ? "count" : "bytes"}]`).click()]];
    this.gestures = [["click", "all figures of a size"]];
    tipOver(this.canvas.node, this.tip, (event) => {
      const hit = this.hit(event);
      return hit ? { children: [this.describe(hit.k)], target: hit.box } : [];
    });
    this.canvas.node.addEventListener("click", (event) => {
      const hit = this.hit(event);
      this.held = hit ? hit.k : -1;
      this.showSide();
      this.canvas.draw();
    });
    notes(this.footer, "a bar: the sizes from one power of two up to the next", "click: all figures of a size");
    this.count();
  }

  changed(names) {
    if (names.includes("range"))
      this.count();
  }

  /* The requests of the range, by class. */
  count() {
    const { device: d, world } = this;
    this.asked = new Float64Array(CLASSES);
    this.asked_bytes = new Float64Array(CLASSES);
    for (let e = Math.max(0, world.first); e <= world.last; e++) {
      if (d.event_action.values[e] !== ALLOC)
        continue;
      const size = d.event_size.at(e), k = size < 1 ? 0 : Math.min(CLASSES - 1, Math.floor(Math.log2(size)));
      this.asked[k]++;
      this.asked_bytes[k] += size;
    }
    this.showSide();
    this.canvas.draw();
  }

  column(name) {
    return this[name] && name.startsWith("asked") ? this[name]
      : Float64Array.from(this.device["class_" + name].values, (_, k) => this.device["class_" + name].at(k));
  }

  total(name) {
    return this.column(name).reduce((sum, value) => sum + value, 0);
  }

  /* From the smallest to the largest class that is not empty. */
  range() {
    let first = CLASSES, last = 0;
    for (const name of ["asked", "live", "free"]) {
      this.column(name).forEach((value, k) => {
        if (value) {
          first = Math.min(first, k);
          last = Math.max(last, k);
        }
      });
    }
    return first > last ? [9, 21] : [first, Math.max(last, first + 7)];
  }

  draw(context, width, height) {
    const [first, last] = this.range();
    const across = width < 640 ? 1 : 2, w = width / across, h = height / (4 / across);
    this.places = PANELS.map((panel, i) => ({
      panel, first, last, x: (i % across) * w + 74, y: Math.floor(i / across) * h + 34, w: Math.max(20, w - 90),
      h: Math.max(10, h - 66),
    }));
    for (const place of this.places)
      this.drawPanel(context, place);
  }

  drawPanel(context, { panel, first, last, x, y, w, h }) {
    const name = panel.columns[this.unit === "bytes" ? 1 : 0], values = this.column(name);
    const bytes = name.endsWith("_bytes"), format = bytes ? formatTick : formatCount;
    const most = Math.max(1, ...values) * 1.08, ticks = Math.max(2, Math.min(5, h / 34));
    const step = bytes ? byteStep(most, ticks) : Math.max(1, decimalStep(most, ticks));
    const faint = cssColor("--faint"), font = "12px system-ui, sans-serif", left = x - 62;
    write(context, panel.name, left, y - 16, cssColor("--ink"), "600 13px system-ui, sans-serif", "left middle");
    const after = context.measureText(panel.name).width, total = this.total(name);
    context.font = font;
    const text = total ? format(total) + (bytes ? "" : " in all") : "none";
    if (left + after + 12 + context.measureText(text).width <= x + w)
      write(context, text, left + after + 12, y - 16, faint, font, "left middle");
    for (let v = 0; total && v <= most; v += step) {
      const at = Math.round(y + h - v / most * h);
      context.fillStyle = cssColor("--grid");
      context.fillRect(x, at, w, 1);
      write(context, format(v), x - 8, at, faint, font, "right middle");
    }
    const cell = w / (last - first + 1), every = Math.ceil(58 / cell);
    for (let k = first; k <= last; k++) {
      const top = values[k] / most * h, at = x + (k - first) * cell;
      context.fillStyle = `rgb(${PALETTE[panel.color].join()})`;
      context.globalAlpha = this.held < 0 || this.held === k ? 1 : 0.35;
      context.fillRect(at + cell * 0.12, y + h - top, cell * 0.76, values[k] ? Math.max(1, top) : 0);
      context.globalAlpha = 1;
      if ((k - first) % every === 0)
        write(context, formatTick(2 ** k), at + cell / 2, y + h + 7, faint, font, "center top");
    }
    context.fillStyle = cssColor("--line");
    context.fillRect(x, y + h, w, 1);
  }

  hit(event) {
    const [px, py] = this.canvas.place(event);
    for (const { x, y, w, h, first, last } of this.places || []) {
      if (px < x || px >= x + w || py < y - 10 || py > y + h + 24)
        continue;
      const cell = w / (last - first + 1), n = Math.floor((px - x) / cell);
      return { k: first + n, box: this.canvas.inWindow([x + n * cell, y, cell, h + 22]) };
    }
    return null;
  }

  describe(k) {
    const c = (name) => this.column(name)[k];
    return facts([
      ["size", `${formatBytes(2 ** k)} to ${formatBytes(2 ** (k + 1))}`],
      ["requests", `${formatCount(c("asked"))}, ${formatBytes(c("asked_bytes"))}`],
      ["allocated", `${formatCount(c("live"))}, ${formatBytes(c("live_bytes"))}`],
      ["lost to rounding", formatBytes(c("waste_bytes")) + (c("live_bytes")
        ? ", " + formatPercent(c("waste_bytes"), c("live_bytes") + c("waste_bytes")) : "")],
      ["free blocks", `${formatCount(c("free"))}, ${formatBytes(c("free_bytes"))}`],
    ]);
  }

  showSide() {
    const total = (name) => this.total(name), { world } = this;
    const live = total("live_bytes"), waste = total("waste_bytes");
    const parts = [element("h2", {}, "In all"),
      ...(world.range ? [element("p", { class: "count" }, "requests of " + world.rangeText())] : []),
      facts([
        ["requests", `${formatCount(total("asked"))}, ${formatBytes(total("asked_bytes"))}`],
        ["allocated", `${formatCount(total("live"))} blocks, ${formatBytes(live)}`],
        ["lost to rounding", formatBytes(waste) + (live ? ", " + formatPercent(waste, live + waste) : "")],
        ["free blocks", `${formatCount(total("free"))}, ${formatBytes(total("free_bytes"))}`]])];
    if (this.held >= 0)
      parts.push(element("h2", {}, "Clicked"), this.describe(this.held));
    this.side.replaceChildren(...parts);
  }

  searched() {
    return this.world.search.active ? "sizes have no names" : "";
  }
}
