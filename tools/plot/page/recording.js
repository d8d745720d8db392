/* A recording: for each card its memory over time, and that of its processes below it. */
const ABSENT = -1, FONT = "11px system-ui, sans-serif";

/* The places of all curves: they have one axis of times. */
class TimeAxis {
  constructor(time) {
    this.time = time;
    this.first = time[0];
    this.length = Math.max(1, time[time.length - 1] - time[0]);
    const steps = time.slice(1).map((t, i) => t - time[i]).sort((a, b) => a - b);
    this.pause = 5 * (steps[steps.length >> 1] || 1); /* a longer one was not recorded */
  }

  x(i, width) {
    return (this.time[i] - this.first) / this.length * width;
  }

  nearest(x, width) {
    const sought = this.first + x / width * this.length;
    const i = Math.max(0, lastAtMost(this.time.length, (k) => this.time[k], sought));
    return i + 1 < this.time.length && this.time[i + 1] - sought < sought - this.time[i] ? i + 1 : i;
  }

  /* Does the curve continue from this time to the next one? */
  joins(i) {
    return i + 1 < this.time.length && this.time[i + 1] - this.time[i] <= this.pause;
  }
}

function clock(ms, seconds) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit",
    second: seconds ? "2-digit" : undefined, hour12: false });
}

/* As the reports write a time, but of the clock where the page is looked at. */
function dateAndTime(ms) {
  return new Date(ms).toLocaleString("sv");
}

/* The stretches of a curve in which it was there, as lists of times. */
function stretches(axis, values) {
  const found = [];
  let list = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] !== ABSENT)
      list.push(i);
    if (list.length && (values[i] === ABSENT || !axis.joins(i))) {
      found.push(list);
      list = [];
    }
  }
  return list.length ? [...found, list] : found;
}

/* One curve with the area that is allocated, the line that is reserved, and ! where memory ran
 * out. */
class Curve {
  constructor(page, data, parent, top) {
    this.page = page;
    this.data = data;
    this.top = top || Math.max(1, ...data.reserved, ...data.allocated);
    this.canvas = new Canvas(parent, (...where) => this.draw(...where));
    this.allocated = stretches(page.axis, data.allocated);
    this.reserved = stretches(page.axis, data.reserved);
    parent.addEventListener("pointermove", (event) => page.point(this, event));
    parent.addEventListener("pointerleave", () => page.point(null));
  }

  y(bytes, height) {
    return height - 1 - Math.min(1, bytes / this.top) * (height - 4);
  }

  trace(context, values, list, width, height) {
    const { axis } = this.page;
    context.moveTo(axis.x(list[0], width), this.y(values[list[0]], height));
    for (const i of list)
      context.lineTo(axis.x(i, width), this.y(values[i], height));
    if (list.length === 1)
      context.lineTo(axis.x(list[0], width) + 1, this.y(values[list[0]], height));
  }

  draw(context, width, height) {
    const { axis, at } = this.page, { allocated, reserved, ooms } = this.data;
    context.fillStyle = cssColor("--accent");
    context.globalAlpha = 0.55;
    for (const list of this.allocated) {
      context.beginPath();
      this.trace(context, allocated, list, width, height);
      context.lineTo(Math.max(axis.x(list[list.length - 1], width), axis.x(list[0], width) + 1), height);
      context.lineTo(axis.x(list[0], width), height);
      context.fill();
    }
    context.globalAlpha = 1;
    context.strokeStyle = cssColor("--ink");
    context.beginPath();
    for (const list of this.reserved)
      this.trace(context, reserved, list, width, height);
    context.stroke();
    context.globalAlpha = 0.8;
    context.fillStyle = cssColor("--back");
    context.fillRect(0, 5, 52, 14);
    context.globalAlpha = 1;
    write(context, formatTick(this.top), 2, 6, cssColor("--ink"), FONT, "left top");
    for (const [i] of ooms)
      write(context, "!", axis.x(i, width), 0, cssColor("--alarm"), "bold 14px sans-serif", "center top");
    if (at >= 0) {
      context.fillStyle = cssColor("--faint");
      context.fillRect(axis.x(at, width), 0, 1, height);
    }
  }

  describe(i) {
    const { allocated, reserved, ooms } = this.data;
    const oom = ooms.find(([time]) => time === i);
    const value = (bytes) => bytes === ABSENT ? "was not there" : formatBytes(bytes);
    return [facts([["time", dateAndTime(this.page.axis.time[i])],
      ["allocated", value(allocated[i])], ["reserved", value(reserved[i])],
      ["out of memory", oom && `${oom[1]} \u00d7`]])];
  }
}

class Recording {
  constructor(data) {
    this.data = data;
    this.axis = new TimeAxis(data.time);
    this.tip = new Tip();
    this.curves = [];
    this.at = -1;
    const last = data.time[data.time.length - 1], seconds = this.axis.length < 600000;
    $("program").textContent = data.host;
    $("kind").textContent = " recording of GPU memory";
    $("facts").textContent = `${dateAndTime(this.axis.first)} to ` +
      `${dateAndTime(last)}, ${formatNumber(data.samples, "sample")}; area: allocated, ` +
      "line: reserved, !: a request ran out of memory";
    for (const [i, card] of data.cards.entries())
      this.addCard(card, i, seconds);
  }

  addCard(card, i, seconds) {
    const section = element("section", { class: "card" }, element("h2", {},
      `GPU ${i} ${card.model} `, element("span", {}, `${formatTick(card.total)}  ${card.uuid}`)));
    $("views").append(section);
    this.addCurve(section, card, ["all processes", ""], "curve sum", card.total);
    card.processes.sort((a, b) => b.peak - a.peak);
    for (const process of card.processes) {
      this.addCurve(section, process, [`${process.pid} ${process.user}` +
        `${process.crashed ? ", crashed" : ""}, peak ${formatBytes(process.peak)}`, process.command], "curve");
    }
    const stage = element("div", { class: "stage" });
    section.append(element("div", { class: "curve axis" }, element("div", { class: "who" }), stage));
    this.curves.push(new Canvas(stage, (context, width) => this.drawTimes(context, width, seconds)));
  }

  addCurve(section, data, [first, second], kind, top) {
    const stage = element("div", { class: "stage" });
    section.append(element("div", { class: kind }, element("div", { class: "who", title: second },
      first, element("span", { class: "count" }, second)), stage));
    this.curves.push(new Curve(this, data, stage, top).canvas);
  }

  /* Times at round seconds, minutes or hours, by the clock of the browser. */
  drawTimes(context, width, seconds) {
    const { first, length } = this.axis, step = Math.max(1000, timeStep(length, width / 90));
    const zone = new Date(first).getTimezoneOffset() * 60000;
    for (let t = Math.ceil((first - zone) / step) * step + zone; t <= first + length; t += step) {
      const x = (t - first) / length * width;
      if (x > 20 && x < width - 20)
        write(context, clock(t, seconds), x, 4, cssColor("--faint"), FONT, "center top");
    }
  }

  /* The pointer is over a curve, or over none. */
  point(curve, event) {
    const before = this.at;
    this.at = curve ? this.axis.nearest(curve.canvas.place(event)[0], curve.canvas.width) : -1;
    if (curve)
      this.tip.show(event, curve.describe(this.at));
    else
      this.tip.hide();
    if (this.at !== before)
      this.curves.forEach((canvas) => canvas.draw());
  }
}

unpackData().then((data) => {
  window.page = new Recording(data);
  document.documentElement.dataset.ready = "yes";
}).catch((error) => {
  $("views").replaceChildren(element("p", { class: "empty alarm" },
    typeof DecompressionStream === "undefined" ? "This browser is too old to unpack the data."
      : `The page could not be drawn: ${error.message}`));
  document.documentElement.dataset.ready = "failed";
  console.error(error);
});
