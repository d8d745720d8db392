/*
 * Several snapshots beside each other: what was allocated over time, and what each stack holds in each of
 * them. The devices of one name are compared with each other.
 */
class CompareView extends View {
  constructor(world, tab) {
    super(world, tab);
    this.moment = "end";
    const files = world.page.files;
    this.parts = files.map((file) => ({ file, device: file.devices.find((each) => each.name === world.device.name) }));
    this.canvas = new Canvas(this.stage, (context, w, h) => this.draw(context, w, h));
    this.controls.append(buttonGroup([["end", "At the end"], ["peak", "At the peak"]], "end", (value) => {
      this.moment = value;
      this.fill();
    }));
    this.side.classList.add("wide");
    notes(this.footer, "each line: allocated over time", "the table: what a stack holds in each snapshot");
    this.fill();
  }

  changed(names) {
    if (names.includes("search"))
      this.fill();
  }

  letter(n) {
    return String.fromCharCode(65 + n);
  }

  color(n) {
    return `rgb(${PALETTE[n % PALETTE.length].join()})`;
  }

  /* By the name of the stack: its bytes in each file. */
  rows() {
    const { parts } = this, rows = new Map();
    parts.forEach(({ file, device: d }, n) => {
      const at = !d ? 0 : this.moment === "end" ? d.events - 1 : d.peak;
      for (let i = 0; d && i < d.number; i++) {
        if (!d.isLive(i, at))
          continue;
        const name = file.lines[d.stack[i]];
        const row = rows.get(name) || new Float64Array(parts.length);
        row[n] += d.size[i];
        rows.set(name, row);
      }
    });
    return [...rows];
  }

  fill() {
    const { parts } = this, text = this.world.search.text, last = parts.length - 1;
    const rows = this.rows().filter(([name]) => name.toLowerCase().includes(text));
    const change = (row) => row[last] - row[0];
    rows.sort((a, b) => Math.abs(change(b[1])) - Math.abs(change(a[1])) || Math.max(...b[1]) - Math.max(...a[1]));
    const total = rows.reduce((sum, [, row]) => sum.map((bytes, n) => bytes + row[n]), new Float64Array(parts.length));
    const signed = (bytes) => bytes ? (bytes > 0 ? "+" : "") + formatBytes(bytes) : "";
    const line = (name, row, kind) => element("tr", { class: kind || "" }, element("td", { class: "name", title: name }, name),
      ...[...row].map((bytes) => element("td", {}, bytes ? formatBytes(bytes) : "\u2013")),
      element("td", { class: change(row) > 0 ? "more" : change(row) < 0 ? "less" : "" }, signed(change(row))));
    this.totals = [...total];
    this.side.replaceChildren(
      ...parts.map(({ file, device }, n) => element("div", { class: "row" },
        element("span", { class: "swatch", style: `background:${this.color(n)}` }),
        element("span", { class: "name" }, `${this.letter(n)}: ${file.command}, process ${file.pid}`),
        element("span", { class: "bytes" }, device ? formatBytes(total[n]) : "no such device"))),
      element("table", { class: "compare" }, element("thead", {}, element("tr", {}, element("th", {}, "stack"),
        ...parts.map((_, n) => element("th", {}, this.letter(n))),
        element("th", { title: "the last less the first" }, "change"))),
      element("tbody", {}, line("all", total, "total"), ...rows.slice(0, ROWS_MAX).map(([name, row]) => line(name, row)))));
    this.canvas.draw();
  }

  draw(context, width, height) {
    const devices = this.parts.map((part) => part.device), there = devices.filter((d) => d && d.events);
    if (!there.length)
      return;
    const longest = there.reduce((a, b) => a.time(a.events) > b.time(b.events) ? a : b);
    const scale = new TimelineScale(longest);
    scale.byTime = true;
    scale.setRange(0, scale.extent());
    scale.plot = { x: 74, y: 14, w: Math.max(10, width - 90), h: Math.max(10, height - 50) };
    scale.low = 0;
    scale.high = Math.max(1, ...there.map((d) => d.allocatedAt(d.peak))) * 1.06;
    scale.drawGrid(context);
    devices.forEach((d, n) => {
      if (d && d.events)
        this.drawLine(context, scale, d, this.color(n));
    });
    scale.drawAxes(context);
  }

  drawLine(context, scale, d, color) {
    const { plot } = scale, count = Math.ceil(plot.w);
    const own = Object.assign(new TimelineScale(d), { byTime: true, x0: scale.x0, x1: scale.x1 });
    const { sample } = new Bands({ device: d }, own.edges(count)), end = scale.px(d.time(d.events));
    context.strokeStyle = color;
    context.lineWidth = 1.6;
    context.beginPath();
    sample.forEach((event, c) => {
      const x = plot.x + c / count * plot.w;
      if (x <= end + 1)
        context.lineTo(x, scale.py(d.allocatedAt(event)));
    });
    context.stroke();
    context.lineWidth = 1;
  }
}
