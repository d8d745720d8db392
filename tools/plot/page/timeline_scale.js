/*
 * The coordinates of the timeline: which part of the axis is visible, in events or milliseconds,
 * and which bytes; the grid, the axes with their labels, the lines for reserved memory, the
 * capacity of the device and the limit of the program, and the band for memory outside the cache.
 */
const AXIS_FONT = "11.5px system-ui, sans-serif", LINE_FONT = "11px system-ui, sans-serif";

class TimelineScale {
  constructor(device) {
    this.device = device;
    this.byTime = false;
    this.fit = false; /* bytes from what is visible, not from 0 */
    this.brush = null; /* [low, high] bytes */
    this.lines = { reserved: false, uncached: false, capacity: false, limit: false };
    this.x0 = 0;
    this.x1 = this.extent();
  }

  /* Events of one moment, or none, have a millisecond. */
  extent() {
    const d = this.device;
    return this.byTime ? d.time(d.events - 1) || 1 : Math.max(d.events, 1);
  }

  /* Shows [x0, x1] of the axis, or as much of it as there is. */
  setRange(x0, x1) {
    const extent = this.extent(), least = this.byTime ? extent / 1e7 : Math.min(8, extent);
    const span = Math.max(Math.min(x1 - x0, extent), least);
    this.x0 = Math.max(0, Math.min((x0 + x1) / 2 - span / 2, extent - span));
    this.x1 = this.x0 + span;
  }

  positionOf(event) {
    return this.byTime ? this.device.time(event) : Math.max(0, event);
  }

  eventAt(position) {
    const d = this.device;
    return this.byTime ? d.eventAt(position) : Math.min(Math.floor(position), d.events - 1);
  }

  /* The other axis, with about the same part visible. */
  turn(byTime) {
    const d = this.device, first = this.eventAt(this.x0), last = this.eventAt(this.x1);
    const whole = this.x1 - this.x0 >= this.extent() * 0.999;
    this.byTime = byTime;
    if (whole || d.events < 2)
      this.setRange(0, this.extent());
    else
      this.setRange(this.positionOf(first), this.positionOf(last));
  }

  /* The positions, in events, of the edges of `count` columns. */
  edges(count) {
    const edges = new Int32Array(count + 1), d = this.device;
    for (let c = 0; c <= count; c++) {
      const position = this.x0 + (this.x1 - this.x0) * c / count;
      edges[c] = this.byTime ? d.eventAt(position) + 1 : Math.ceil(position - 1e-9);
    }
    return edges;
  }

  /* Places the axes around a plot and chooses the visible bytes for these columns. */
  place(plot, sample) {
    const d = this.device;
    let most = 1, least = Infinity;
    for (const event of sample) {
      most = Math.max(most, d.activeAt(event), d.allocatedAt(event),
        this.lines.reserved ? d.reservedAfter(event) : 0, this.lines.uncached ? this.withUncached(event) : 0);
      least = Math.min(least, d.allocatedAt(event));
    }
    for (const name of ["capacity", "limit"])
      most = Math.max(most, this.lines[name] ? d[name] : 0);
    this.plot = plot;
    this.labels = new Labels(plot);
    this.low = this.brush ? this.brush[0] : this.fit ? Math.max(0, least - (most - least) * 0.06) : 0;
    this.high = this.brush ? this.brush[1] : most + (most - this.low) * 0.06;
  }

  /* What the program has of the device, as far as it is known. */
  withUncached(event) {
    return this.device.reservedAfter(event) + this.device.uncachedAfter(event);
  }

  px(position) {
    return this.plot.x + (position - this.x0) / (this.x1 - this.x0) * this.plot.w;
  }

  positionAt(px) {
    return this.x0 + (px - this.plot.x) / this.plot.w * (this.x1 - this.x0);
  }

  py(bytes) {
    return this.plot.y + this.plot.h - (bytes - this.low) / (this.high - this.low) * this.plot.h;
  }

  bytesAt(py) {
    return this.low + (this.plot.y + this.plot.h - py) / this.plot.h * (this.high - this.low);
  }

  /* The bytes with a label: multiples of a power of two. */
  byteTicks() {
    const step = byteStep(this.high - this.low, Math.max(2, this.plot.h / 60)), ticks = [];
    for (let v = Math.ceil(this.low / step) * step; v < this.high; v += step)
      ticks.push(v);
    return ticks;
  }

  drawGrid(context) {
    context.fillStyle = cssColor("--grid");
    for (const v of this.byteTicks())
      context.fillRect(this.plot.x, Math.round(this.py(v)), this.plot.w, 1);
  }

  drawAxes(context) {
    const { plot } = this, faint = cssColor("--faint");
    for (const v of this.byteTicks())
      write(context, formatTick(v), plot.x - 6, this.py(v), faint, AXIS_FONT, "right middle");
    context.font = AXIS_FONT;
    for (const [v, text] of this.ticks(context)) {
      const x = this.px(v), half = context.measureText(text).width / 2;
      context.fillStyle = faint;
      context.fillRect(Math.round(x), plot.y + plot.h, 1, 4);
      if (x - half >= plot.x - 40 && x + half <= plot.x + plot.w + 14)
        write(context, text, x, plot.y + plot.h + 6, faint, AXIS_FONT, "center top");
    }
    context.strokeStyle = cssColor("--line");
    context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.w + 1, plot.h + 1);
  }

  /* [position, text] of the ticks: as many as fit without touching each other. */
  ticks(context) {
    const range = this.x1 - this.x0;
    for (let count = Math.ceil(this.plot.w / 50); ; count = Math.ceil(count / 1.5) - 1) {
      const wanted = Math.max(1, count);
      const step = this.byTime ? timeStep(range, wanted) : Math.max(1, decimalStep(range, wanted));
      const ticks = [];
      for (let k = Math.ceil(this.x0 / step - 1e-9); k * step <= this.x1 * (1 + 1e-12); k++)
        ticks.push([k * step, this.byTime ? formatTimeTick(k * step, step) : formatCount(k * step)]);
      const widest = Math.max(...ticks.map(([, text]) => context.measureText(text).width), 0);
      if (wanted === 1 || widest + 14 <= step / range * this.plot.w)
        return ticks;
    }
  }

  /* Lines that lie above what is visible are named at the top with an arrow. */
  drawLines(context, sample) {
    const { plot, device: d } = this, ink = cssColor("--ink"), above = [];
    context.save();
    context.beginPath();
    context.rect(plot.x, plot.y, plot.w, plot.h);
    context.clip();
    if (this.lines.uncached)
      this.drawUncached(context, sample);
    if (this.lines.reserved)
      this.drawSteps(context, sample, ink);
    else {
      const most = sample.reduce((most, event) => Math.max(most, d.reservedAfter(event)), 0);
      if (most > this.high)
        above.push(`reserved ${formatBytes(most)}`);
    }
    for (const [name, text] of [["capacity", "capacity of the device"], ["limit", "limit of the program"]]) {
      if (!d[name])
        continue;
      if (d[name] > this.high)
        above.push(`${text.split(" ")[0]} ${formatBytes(d[name])}`);
      else if (this.lines[name])
        this.drawLevel(context, d[name], `${text} ${formatBytes(d[name])}`);
    }
    context.restore();
    if (above.length)
      this.labels.put(context, "\u2191 " + above.join(", "), cssColor("--faint"), LINE_FONT,
        [[plot.x + plot.w - 6, plot.y + 4, "right top"], [plot.x + 6, plot.y + 4, "left top"]]);
  }

  /* A band above what is reserved. */
  drawUncached(context, sample) {
    const { plot, device: d } = this, count = sample.length, color = cssColor("--faint");
    const x = (c) => plot.x + c / count * plot.w;
    const trace = (bytes, from, to, step) => {
      for (let c = from; c !== to; c += step) {
        context.lineTo(x(step > 0 ? c : c + 1), this.py(bytes(sample[c])));
        context.lineTo(x(step > 0 ? c + 1 : c), this.py(bytes(sample[c])));
      }
    };
    context.beginPath();
    trace((event) => this.withUncached(event), 0, count, 1);
    trace((event) => d.reservedAfter(event), count - 1, -1, -1);
    context.closePath();
    context.globalAlpha = 0.25;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
    const last = sample[count - 1], y = this.py((this.withUncached(last) + d.reservedAfter(last)) / 2);
    if (d.uncachedAfter(last))
      this.labels.put(context, "outside the cache", cssColor("--ink"), LINE_FONT,
        [[plot.x + plot.w - 6, y, "right middle"], [plot.x + 6, y, "left middle"]]);
  }

  drawLevel(context, bytes, text) {
    const y = Math.round(this.py(bytes)) + 0.5, color = cssColor("--alarm");
    context.strokeStyle = color;
    context.lineWidth = 1.2;
    context.beginPath();
    context.moveTo(this.plot.x, y);
    context.lineTo(this.plot.x + this.plot.w, y);
    context.stroke();
    const sides = [[this.plot.x + 6, "left"], [this.plot.x + this.plot.w - 6, "right"]];
    /* Failures are named in the upper right corner. */
    if (!this.device.ooms.length)
      sides.reverse();
    this.labels.put(context, text, color, LINE_FONT, sides.flatMap(([x, side]) =>
      [[x, y - 3, side + " bottom"], [x, y + 3, side + " top"]]));
  }

  drawSteps(context, sample, ink) {
    const { plot, device: d } = this, count = sample.length;
    context.strokeStyle = ink;
    context.lineWidth = 1.2;
    context.setLineDash([5, 3]);
    context.beginPath();
    const name = "reserved from the driver";
    context.font = LINE_FONT;
    const nameEnd = plot.x + context.measureText(name).width + 8;
    let last = d.reservedAfter(sample[0]), mostBelowName = last;
    context.moveTo(plot.x, this.py(last));
    for (let c = 1; c < count; c++) {
      const value = d.reservedAfter(sample[c]), x = plot.x + c / count * plot.w;
      if (x < nameEnd)
        mostBelowName = Math.max(mostBelowName, value);
      if (value !== last) {
        context.lineTo(x, this.py(last));
        context.lineTo(x, this.py(value));
      }
      last = value;
    }
    context.lineTo(plot.x + plot.w, this.py(last));
    context.stroke();
    context.setLineDash([]);
    const left = plot.x + 4, right = plot.x + plot.w - 6, y = this.py(mostBelowName);
    this.labels.put(context, name, cssColor("--faint"), LINE_FONT, [[left, y - 2, "left bottom"],
      [left, y + 3, "left top"], [right, this.py(last) - 2, "right bottom"]]);
  }
}
