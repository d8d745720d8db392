/*
 * Flame graphs of memory by stack, for the selected range of events: allocated at its end, at its
 * peak, allocated during it, and still allocated of these. The outermost functions are on top, or,
 * inverted, those that allocate.
 */
const CELL = 21, PAD = 14;
const MEASURES = [["live", "Allocated now", "allocated at the end of the range"], ["peak", "At the peak", "of the range"],
  ["kept", "Never freed", "allocated during the range, and still allocated at its end"],
  ["allocated", "Requested", "everything allocated during the range"]];

/* What each stack has, by a measure: { bytes, count } arrays by stack. */
function sumForFlame(world, measure) {
  const { device: d, file, first, last } = world, peak = measure === "peak" ? (world.range ? d.peakIn(first, last) : d.peak) : 0;
  const bytes = new Float64Array(file.stacks.length), count = new Float64Array(file.stacks.length);
  for (let i = 0; i < d.number; i++) {
    const begun = d.begin[i] >= Math.max(0, first) && d.begin[i] <= last;
    const counts = measure === "peak" ? d.isLive(i, peak) : measure === "live" ? d.isLive(i, last)
      : begun && (measure === "allocated" || d.freed[i] > last);
    if (!counts)
      continue;
    bytes[d.stack[i]] += d.size[i];
    count[d.stack[i]]++;
  }
  return { bytes, count };
}

class FlameView extends View {
  constructor(world, tab) {
    super(world, tab);
    this.measure = "live";
    this.unit = "bytes";
    this.inverted = false;
    this.holder = element("div", { class: "flames" });
    this.page = element("div", { style: "position:relative" });
    this.holder.append(this.page);
    this.stage.append(this.holder);
    if (!this.file.stacks.some((frames) => frames.length)) {
      this.page.append(element("p", { class: "empty" },
        "No stacks were recorded. Start the program with ", element("code", {}, "CUDAMEM_CONF=stacks:alloc"),
        ", or begin while it runs with ", element("code", {}, "cudamemstat history start PID"), "."));
    }
    this.canvas = new Canvas(this.page, (context, w, h) => this.draw(context, w, h));
    this.controls.append(
      buttonGroup(MEASURES, "live", (value) => this.choose("measure", value)),
      buttonGroup([["bytes", "Bytes"], ["count", "Blocks"]], "bytes", (value) => this.choose("unit", value)),
      element("button", { id: "turn", "aria-pressed": "false", onclick: (event) => {
        this.inverted = !this.inverted;
        event.currentTarget.setAttribute("aria-pressed", String(this.inverted));
        this.build();
      } }, "Invert"));
    this.keys = [
      [["ArrowUp"], "look from one function further out", () => this.zoomOut()],
      [["i"], "invert", () => this.controls.querySelector("#turn").click()],
      [["m"], "the next measure", () => this.nextMeasure()],
      [["b"], "bytes or blocks", () => this.controls.querySelector(`[data-value=${this.unit === "bytes" ? "count" : "bytes"}]`).click()],
    ];
    this.gestures = [["click", "look closer; the top row: all"]];
    this.listen();
    notes(this.footer, "click: look closer", "click the top row: all", "hover: what it is", "?: all keys");
    this.build();
  }

  nextMeasure() {
    const at = MEASURES.findIndex(([name]) => name === this.measure);
    this.controls.querySelector(`[data-value=${MEASURES[(at + 1) % MEASURES.length][0]}]`).click();
  }

  choose(key, value) {
    this[key] = value;
    this.build();
  }

  changed(names) {
    if (names.includes("range"))
      this.build();
    else if (names.some((name) => name !== "cursor"))
      this.place();
  }

  node(name, frame) {
    return { name, frame, value: 0, self: 0, children: new Map(), labels: new Set() };
  }

  build() {
    const { file } = this, root = this.node("all", null);
    const sums = this.sums = sumForFlame(this.world, this.measure), values = sums[this.unit];
    for (let stack = 0; stack < values.length; stack++) {
      if (!values[stack])
        continue;
      let frames = file.stacks[stack];
      if (!this.inverted)
        frames = [...frames].reverse();
      let at = root;
      root.value += values[stack];
      for (const number of frames.length ? frames : [-1]) {
        /* One box per function, whatever the line of the call. */
        const name = number < 0 ? file.callers[0] : file.frames[number][0];
        if (!at.children.has(name))
          at.children.set(name, this.node(name, number < 0 ? null : number));
        at = at.children.get(name);
        at.value += values[stack];
        at.labels.add(file.labelOf[stack]);
      }
      at.self += values[stack];
    }
    this.root = this.zoomed = root;
    this.place();
  }

  /* The boxes with their positions as fractions of the width; invisible ones are left out. */
  place() {
    const boxes = [], least = 0.0004;
    let deepest = 0;
    const walk = (node, depth, from, to) => {
      boxes.push({ node, depth, from, to, above: false });
      deepest = Math.max(deepest, depth);
      let at = from;
      for (const child of [...node.children.values()].sort((a, b) => b.value - a.value)) {
        const width = (to - from) * child.value / node.value;
        if (width >= least)
          walk(child, depth + 1, at, at + width);
        at += width;
      }
    };
    const path = this.path(this.zoomed);
    path.forEach((node, depth) => boxes.push({ node, depth, from: 0, to: 1, above: true }));
    if (this.zoomed.value)
      walk(this.zoomed, path.length, 0, 1);
    this.boxes = boxes;
    this.page.style.height = Math.max(this.stage.clientHeight, (deepest + 1) * CELL + 2 * PAD) + "px";
    this.canvas.draw();
    this.showSide();
  }

  /* From the root to the node, exclusive. */
  path(node) {
    const find = (at, way) => {
      if (at === node)
        return way;
      for (const child of at.children.values()) {
        const found = find(child, [...way, at]);
        if (found)
          return found;
      }
      return null;
    };
    return find(this.root, []) || [];
  }

  zoomOut() {
    this.zoomed = this.path(this.zoomed).pop() || this.root;
    this.place();
  }

  format(value) {
    return this.unit === "bytes" ? formatBytes(value) : formatCount(value);
  }

  /* A colour that depends on nothing but the name. */
  color(name) {
    let sum = 0;
    for (let i = 0; i < name.length; i++)
      sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
    return PALETTE[sum % PALETTE.length];
  }

  matches(node) {
    const { text } = this.world.search, frame = node.frame === null ? null : this.file.frames[node.frame];
    return node.name.toLowerCase().includes(text) || (frame && frame[1].toLowerCase().includes(text));
  }

  /* Faded: others are searched for, or hold the selected block or stack. */
  isDim(node) {
    const { world, file, device } = this;
    const label = world.label >= 0 ? world.label : world.block >= 0 ? file.labelOf[device.stack[world.block]] : -1;
    if (node === this.root)
      return false;
    return (world.search.active && !this.matches(node)) || (label >= 0 && !node.labels.has(label));
  }

  draw(context, width) {
    const wide = this.wide = width - 2 * PAD, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const box of this.boxes) {
      const x = PAD + box.from * wide, w = (box.to - box.from) * wide, y = PAD + box.depth * CELL;
      if (w < 0.4)
        continue;
      const dim = this.isDim(box.node);
      const rgb = (box.node === this.root ? NEUTRAL : this.color(box.node.name))
        .map((c) => Math.round(dark ? c * 0.82 : c * 0.86 + 35));
      context.globalAlpha = dim ? 0.2 : box.above ? 0.55 : 1;
      context.fillStyle = `rgb(${rgb.join()})`;
      context.fillRect(x, y, Math.max(0.5, w - 0.8), CELL - 1.2);
      context.globalAlpha = dim ? 0.5 : 1;
      if (w > 34) {
        const long = `${box.node.name}   ${this.format(box.node.value)}`;
        context.fillStyle = dim || box.above ? cssColor("--ink") : inkOn(rgb);
        context.fillText(context.measureText(long).width <= w - 10 ? long : shorten(context, box.node.name, w - 10),
          x + 5, y + CELL / 2);
      }
      context.globalAlpha = 1;
    }
  }

  hit(event) {
    const [x, y] = this.canvas.place(event);
    const at = (x - PAD) / this.wide, depth = Math.floor((y - PAD) / CELL);
    return this.boxes.find((each) => each.depth === depth && at >= each.from && at < each.to);
  }

  describe(node) {
    const [, file, line] = node.frame === null ? [] : this.file.frames[node.frame];
    const [, measure] = MEASURES.find(([name]) => name === this.measure);
    return [element("div", { class: "fn" }, element("strong", {}, node.name)),
      ...(file && file !== "??" ? [element("div", { class: "count" }, file + (line ? ":" + line : ""))] : []),
      facts([
        [measure.toLowerCase(), `${this.format(node.value)}  (${formatPercent(node.value, this.root.value)})`],
        ["of that itself", node.self ? this.format(node.self) : null]])];
  }

  listen() {
    const { node } = this.canvas;
    tipOver(node, this.tip, (event) => {
      const hit = this.hit(event);
      if (!hit)
        return [];
      const w = (hit.to - hit.from) * this.wide;
      return { children: this.describe(hit.node),
        target: this.canvas.inWindow([PAD + hit.from * this.wide, PAD + hit.depth * CELL, w, CELL]) };
    });
    node.addEventListener("click", (event) => {
      const hit = this.hit(event);
      if (!hit)
        return;
      this.zoomed = hit.node;
      this.place();
    });
    new ResizeObserver(() => this.stage.clientHeight && this.place()).observe(this.stage);
  }

  /* The stacks of one name as one row, largest first. */
  showSide() {
    const { file, sums, world } = this, values = sums[this.unit], rows = new Map();
    let total = 0;
    for (let stack = 0; stack < values.length; stack++) {
      if (!values[stack])
        continue;
      const row = rows.get(file.labelOf[stack]) || { stack, value: 0, count: 0 };
      row.value += values[stack];
      row.count += sums.count[stack];
      total += values[stack];
      rows.set(file.labelOf[stack], row);
    }
    const sorted = [...rows].sort((a, b) => b[1].value - a[1].value);
    const list = element("div", { class: "breakdown" });
    for (const [label, row] of sorted.slice(0, 60)) {
      list.append(stackRow({ class: world.label === label ? "on" : "", title: file.names[label],
        onclick: () => world.pickLabel(label) }, world.colors.css(row.stack), file.names[label], row.count,
      this.format(row.value)));
      if (world.label === label)
        list.append(frameList(file, row.stack));
    }
    if (sorted.length > 60)
      list.append(element("div", { class: "count" }, `and ${formatCount(sorted.length - 60)} more stacks`));
    this.side.replaceChildren(
      element("h2", {}, `${this.format(total)} by ${formatNumber(sorted.length, "stack")}`),
      ...(world.range ? [element("p", { class: "count" }, world.rangeText())] : []), list, ...this.describeHeld());
  }

  searched() {
    const { world } = this;
    if (!world.search.active || !this.root.value)
      return "";
    let share = 0;
    const sum = (node) => {
      if (node !== this.root && this.matches(node))
        share += node.value;
      else
        node.children.forEach(sum);
    };
    sum(this.root);
    return `${this.format(share)}, ${formatPercent(share, this.root.value)}`;
  }

  /* Looks closer at the next box that matches. */
  searchNext(step) {
    const found = this.boxes.filter((box) => !box.above && box.node !== this.root && this.matches(box.node));
    if (!found.length || !this.world.search.active)
      return;
    this.searchAt = ((this.searchAt ?? -step) + step + found.length) % found.length;
    this.zoomed = found[this.searchAt].node;
    this.place();
  }
}
