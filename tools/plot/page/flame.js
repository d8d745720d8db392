/*
 * Flame graphs of memory by stack: allocated now, allocated at the peak, allocated during the events, and
 * of these still allocated. The outermost functions are on top, or, inverted, those that allocate.
 */
const TITLE = "flame graph";
const CELL = 21, PAD = 14;

class View {
  constructor(world) {
    Object.assign(this, world);
    this.measure = "live";
    this.unit = "bytes";
    this.inverted = false;
    const weights = new Map();
    for (let i = 0; i < this.device.sum_stack.length; i++)
      weights.set(this.device.sum_stack[i], this.device.live_bytes[i] || this.device.peak_bytes[i]);
    this.holder = element("div", { style: "position:absolute;inset:0;overflow-y:auto" });
    this.stage.append(this.holder);
    this.page = element("div", { style: "position:relative" });
    this.holder.append(this.page);
    if (!this.about.stacks.some((frames) => frames.length)) {
      this.page.append(element("p", { class: "empty" },
        "No stacks were recorded. Start the program with ", element("code", {}, "CUDAMEM_CONF=stacks:alloc"),
        ", or begin while it runs with ", element("code", {}, "cudamemstat history start PID"), "."));
    }
    this.canvas = new Canvas(this.page, (context, w, h) => this.draw(context, w, h));
    this.controls.append(
      buttonGroup([["live", "In use now"], ["peak", "At the peak"],
        ["kept", "Never freed", "allocated during the events, and still allocated"],
        ["allocated", "Allocated", "everything allocated during the events"]], "live",
      (value) => this.choose("measure", value)),
      buttonGroup([["bytes", "Bytes"], ["count", "Blocks"]], "bytes", (value) => this.choose("unit", value)),
      element("button", { id: "turn", "aria-pressed": "false", onclick: (event) => {
        this.inverted = !this.inverted;
        event.currentTarget.setAttribute("aria-pressed", String(this.inverted));
        this.build();
      } }, "Turn over"));
    this.listen();
    notes(this.footer, "click: look closer", "click the top row: all", "hover: what it is");
    this.build();
  }

  choose(key, value) {
    this[key] = value;
    this.build();
  }

  node(name, frame) {
    return { name, frame, value: 0, self: 0, children: new Map() };
  }

  build() {
    const d = this.device, about = this.about, root = this.node("all", null);
    const values = d[this.measure + "_" + this.unit];
    for (let i = 0; i < d.sum_stack.length; i++) {
      if (!values[i])
        continue;
      let frames = about.stacks[d.sum_stack[i]];
      if (!this.inverted)
        frames = [...frames].reverse();
      let at = root;
      root.value += values[i];
      for (const number of frames.length ? frames : [-1]) {
        /* One box per function, whatever the line of the call. */
        const name = number < 0 ? about.callers[0] : about.frames[number][0];
        if (!at.children.has(name))
          at.children.set(name, this.node(name, number < 0 ? null : number));
        at = at.children.get(name);
        at.value += values[i];
      }
      at.self += values[i];
    }
    this.root = this.zoomed = root;
    this.place();
  }

  /* The boxes with their positions as fractions of the width; invisible ones are left out. */
  place() {
    const boxes = [], least = 0.0004;
    let deepest = 0;
    const walk = (node, depth, from, to, way) => {
      boxes.push({ node, depth, from, to, way });
      deepest = Math.max(deepest, depth);
      let at = from;
      const children = [...node.children.values()].sort((a, b) => b.value - a.value);
      for (const child of children) {
        const width = (to - from) * child.value / node.value;
        if (width >= least)
          walk(child, depth + 1, at, at + width, [...way, node]);
        at += width;
      }
    };
    const path = this.path(this.zoomed);
    path.forEach((node, depth) => boxes.push({ node, depth, from: 0, to: 1, way: path.slice(0, depth) }));
    if (this.zoomed.value)
      walk(this.zoomed, path.length, 0, 1, path);
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

  format(value) {
    return this.unit === "bytes" ? formatBytes(value) : formatCount(value) + " blocks";
  }

  color(name) {
    let hash = 0;
    for (let i = 0; i < name.length; i++)
      hash = (hash * 31 + name.charCodeAt(i)) | 0;
    return PALETTE[Math.abs(hash) % PALETTE.length];
  }

  matches(node) {
    if (node.name.toLowerCase().includes(this.search.text))
      return true;
    return node.frame !== null && this.about.frames[node.frame][1].toLowerCase().includes(this.search.text);
  }

  draw(context, width, height) {
    const wide = this.wide = width - 2 * PAD, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const zoomedDepth = this.path(this.zoomed).length;
    for (const box of this.boxes) {
      const x = PAD + box.from * wide, w = (box.to - box.from) * wide, y = PAD + box.depth * CELL;
      if (w < 0.4)
        continue;
      const above = box.way.length < zoomedDepth && box.node !== this.zoomed;
      const dim = this.search.active && !this.matches(box.node);
      let rgb = box.node === this.root ? [150, 158, 170] : this.color(box.node.name);
      rgb = rgb.map((c) => Math.round(dark ? c * 0.82 : c * 0.86 + 35));
      context.globalAlpha = dim ? 0.2 : above ? 0.55 : 1;
      context.fillStyle = `rgb(${rgb.join()})`;
      context.fillRect(x, y, Math.max(0.5, w - 0.8), CELL - 1.2);
      context.globalAlpha = dim ? 0.5 : 1;
      if (w > 34) {
        context.fillStyle = inkOn(rgb);
        context.fillText(this.fit(context, box.node, w - 10), x + 5, y + CELL / 2);
      }
      context.globalAlpha = 1;
    }
  }

  fit(context, node, width) {
    const long = `${node.name}   ${this.format(node.value)}`;
    if (context.measureText(long).width <= width)
      return long;
    if (context.measureText(node.name).width <= width)
      return node.name;
    const letters = Math.floor(node.name.length * (width - 10) / context.measureText(node.name).width);
    return letters > 2 ? node.name.slice(0, letters) + "\u2026" : "";
  }

  hit(event) {
    const [x, y] = this.canvas.place(event);
    const at = (x - PAD) / this.wide, depth = Math.floor((y - PAD) / CELL);
    return this.boxes.find((each) => each.depth === depth && at >= each.from && at < each.to);
  }

  describe(node) {
    const [, file, line] = node.frame === null ? [] : this.about.frames[node.frame];
    return [element("div", { class: "fn" }, element("strong", {}, node.name)),
      ...(file && file !== "??" ? [element("div", { class: "count" }, file + (line ? ":" + line : ""))] : []),
      facts([
        [this.measure === "live" ? "allocated" : this.measure, `${this.format(node.value)}  ` +
          `(${formatPercent(node.value, this.root.value)})`],
        ["of that itself", node.self ? this.format(node.self) : null]])];
  }

  listen() {
    const node = this.canvas.node;
    tipOver(node, this.tip, (event) => {
      const hit = this.hit(event);
      return hit ? this.describe(hit.node) : [];
    });
    node.addEventListener("click", (event) => {
      const hit = this.hit(event);
      if (!hit)
        return;
      this.zoomed = hit.node;
      this.place();
    });
    new ResizeObserver(() => this.place()).observe(this.stage);
  }

  /* The stacks of the visible boxes, largest first. */
  showSide() {
    const d = this.device, about = this.about, values = d[this.measure + "_" + this.unit];
    const rows = [];
    let total = 0;
    for (let i = 0; i < values.length; i++) {
      total += values[i];
      if (values[i])
        rows.push([values[i], d[this.measure + "_count"][i], d.sum_stack[i]]);
    }
    rows.sort((a, b) => b[0] - a[0]);
    const list = element("div", { id: "breakdown" });
    for (const [value, count, stack] of rows.slice(0, 30)) {
      list.append(stackRow({
        class: "row" + (this.held === stack ? " on" : ""), title: about.labels[stack],
        onclick: () => {
          this.held = this.held === stack ? undefined : stack;
          this.showSide();
        },
      }, null, about.labels[stack], count,
      this.unit === "bytes" ? formatBytes(value) : formatCount(value)));
      if (this.held === stack)
        list.append(frameList(about, stack));
    }
    this.side.replaceChildren(
      element("h2", {}, `${this.format(total)} by ${formatCount(rows.length)} stacks`), list);
  }

  searched() {
    let share = 0;
    const sum = (node) => {
      if (node !== this.root && this.matches(node))
        share += node.value;
      else
        node.children.forEach(sum);
    };
    this.canvas.draw();
    if (!this.search.active || !this.root.value)
      return "";
    sum(this.root);
    return `${this.format(share)}, ${formatPercent(share, this.root.value)}`;
  }
}
