/*
 * Histograms by size, in powers of two: requests, live blocks, their rounding, and free blocks.
 */
const TITLE = "sizes and waste";
const PANELS = [
  { name: "Requests in the time of the events", columns: ["asked", "asked_bytes"], color: 0 },
  { name: "In use now", columns: ["live", "live_bytes"], color: 2 },
  { name: "Lost to rounding, by requested size", columns: ["waste_bytes", "waste_bytes"], color: 3 },
  { name: "Free blocks in reserved memory", columns: ["free", "free_bytes"], color: 4 },
];

class View {
  constructor(world) {
    Object.assign(this, world);
    this.unit = "bytes";
    this.canvas = new Canvas(this.stage, (context, w, h) => this.draw(context, w, h));
    this.controls.append(buttonGroup([["bytes", "Bytes"], ["count", "Number"]], "bytes", (value) => {
      this.unit = value;
      this.canvas.draw();
    }));
    tipOver(this.canvas.node, this.tip, (event) => {
      const hit = this.hit(event);
      return hit ? [this.describe(hit.k)] : [];
    });
    this.canvas.node.addEventListener("click", (event) => {
      const hit = this.hit(event);
      this.held = hit ? hit.k : undefined;
      this.showSide();
      this.canvas.draw();
    });
    notes(this.footer, "a bar: the sizes from one power of two up to the next",
      "click: all figures of a size");
    this.showSide();
  }

  column(name) {
    return this.device["class_" + name];
  }

  /* From the smallest to the largest class that is not empty. */
  range() {
    let first = 48, last = 0;
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
    const [first, last] = this.shown = this.range();
    const h = height / 2, w = width / 2;
    this.places = PANELS.map((panel, i) => ({
      panel, x: (i % 2) * w + 76, y: Math.floor(i / 2) * h + 40, w: w - 100, h: h - 84,
    }));
    for (const place of this.places)
      this.drawPanel(context, place, first, last);
  }

  drawPanel(context, { panel, x, y, w, h }, first, last) {
    const name = panel.columns[this.unit === "bytes" ? 1 : 0];
    const values = this.column(name), bytes = name.endsWith("_bytes");
    const format = bytes ? formatTick : formatCount;
    const most = Math.max(1, ...values) * 1.08, step = bytes ? byteStep(most, 5) : Math.max(1, decimalStep(most, 5));
    const total = values.reduce((sum, value) => sum + value, 0);
    const faint = cssColor("--faint"), font = "12px system-ui, sans-serif";
    write(context, panel.name, x - 58, y - 20, cssColor("--ink"), "600 13px system-ui, sans-serif",
      "left middle");
    const after = context.measureText(panel.name).width;
    write(context, format(total) + (bytes ? "" : " in all"), x - 58 + after + 12, y - 20, faint, font,
      "left middle");
    for (let v = 0; v <= most; v += step) {
      const at = Math.round(y + h - v / most * h);
      context.fillStyle = cssColor("--grid");
      context.fillRect(x, at, w, 1);
      write(context, format(v), x - 8, at, faint, font, "right middle");
    }
    const cell = w / (last - first + 1);
    for (let k = first; k <= last; k++) {
      const top = values[k] / most * h, left = x + (k - first) * cell;
      context.fillStyle = `rgb(${PALETTE[panel.color].join()})`;
      context.globalAlpha = this.held === undefined || this.held === k ? 1 : 0.35;
      context.fillRect(left + cell * 0.12, y + h - top, cell * 0.76, values[k] ? Math.max(1, top) : 0);
      context.globalAlpha = 1;
      if (cell > 52 || (k - first) % Math.ceil(52 / cell) === 0)
        write(context, formatTick(2 ** k), left + cell / 2, y + h + 7, faint, font, "center top");
    }
    context.fillStyle = cssColor("--line");
    context.fillRect(x, y + h, w, 1);
  }

  hit(event) {
    const [px, py] = this.canvas.place(event);
    for (const { panel, x, y, w, h } of this.places || []) {
      if (px >= x && px < x + w && py >= y - 10 && py <= y + h + 24) {
        const [first, last] = this.shown;
        return { panel, k: first + Math.floor((px - x) / w * (last - first + 1)) };
      }
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
    const total = (name) => this.column(name).reduce((sum, value) => sum + value, 0);
    const live = total("live_bytes"), waste = total("waste_bytes"), free = total("free_bytes");
    const parts = [element("h2", {}, "In all"), facts([
      ["requests", `${formatCount(total("asked"))}, ${formatBytes(total("asked_bytes"))}`],
      ["allocated", `${formatCount(total("live"))} blocks, ${formatBytes(live)}`],
      ["lost to rounding", formatBytes(waste) + (live ? ", " + formatPercent(waste, live + waste) : "")],
      ["free blocks", `${formatCount(total("free"))}, ${formatBytes(free)}`]])];
    if (this.held !== undefined)
      parts.push(element("h2", {}, "Clicked"), this.describe(this.held));
    this.side.replaceChildren(...parts);
  }

  searched() {
    return this.search.active ? "sizes have no names" : "";
  }
}
