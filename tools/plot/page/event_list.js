/*
 * The list of events: all, or those that the search finds. Only the visible lines exist; a list that is
 * longer than a browser can lay out scrolls in proportion.
 */
const EVENT_HEIGHT = 20, LIST_MOST = 8e6;

class EventList {
  constructor(view) {
    this.view = view;
    this.world = view.world;
    this.device = view.device;
    this.found = null; /* null: all */
    this.pad = element("div", { class: "pad" });
    this.node = element("div", { class: "events" }, this.pad);
    this.node.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.node);
    this.search();
  }

  get count() {
    return this.found ? this.found.length : this.device.events;
  }

  eventOf(row) {
    return this.found ? this.found[row] : row;
  }

  /* The row of an event, or of the one before it. */
  rowOf(event) {
    return this.found ? lastAtMost(this.found.length, (row) => this.found[row], event) : event;
  }

  search() {
    const { world, device: d } = this;
    this.found = null;
    if (world.search.active) {
      const found = [];
      for (let e = 0; e < d.events; e++) {
        if (world.search.findsEvent(d, e))
          found.push(e);
      }
      this.found = Int32Array.from(found);
    }
    this.height = Math.min(this.count * EVENT_HEIGHT, LIST_MOST);
    this.pad.style.height = this.height + "px";
  }

  /* The first visible row, with a fraction. */
  get top() {
    const hidden = this.count * EVENT_HEIGHT - this.node.clientHeight;
    const room = this.height - this.node.clientHeight;
    return room <= 0 ? 0 : this.node.scrollTop / room * hidden / EVENT_HEIGHT;
  }

  reveal(event) {
    const row = this.rowOf(event), shown = this.node.clientHeight / EVENT_HEIGHT;
    if (row < this.top || row > this.top + shown - 1) {
      const hidden = this.count * EVENT_HEIGHT - this.node.clientHeight;
      const room = this.height - this.node.clientHeight;
      this.node.scrollTop = hidden <= 0 ? 0 : (row - shown / 2) * EVENT_HEIGHT / hidden * room;
    }
    this.draw();
  }

  draw() {
    const top = this.top, first = Math.floor(top), lines = [];
    const last = Math.min(this.count, first + Math.ceil(this.node.clientHeight / EVENT_HEIGHT) + 2);
    for (let row = first; row < last; row++)
      lines.push(this.line(this.eventOf(row), this.node.scrollTop + (row - top) * EVENT_HEIGHT));
    this.pad.replaceChildren(...lines);
  }

  line(e, y) {
    const { device: d, world, view } = this, action = d.event_action.values[e], stack = d.event_stack.values[e];
    const [name, size] = this.name(e, action, stack);
    const line = element("div", {
      class: "event" + (e === world.cursor ? " on" : "") + (action === OOM ? " oom" : ""),
      style: `top:${y}px`, "data-event": e, onclick: () => view.go(e),
    },
    element("span", { class: "what" }, ACTIONS[action]),
    element("span", { class: "size" }, size),
    element("span", { class: "name" }, name),
    element("span", { class: "count" }, formatCount(e)));
    tipOver(line, view.tip, () => ({ target: boxOf(line), children: [this.describe(e),
      ...(action === SNAPSHOT ? [] : [frameList(view.file, stack, 12)])] }));
    return line;
  }

  name(e, action, stack) {
    const { device: d, view } = this, oom = d.oomOf.get(e);
    const size = formatBytes(oom ? oom.size : d.event_size.at(e));
    return [stack ? view.file.callers[stack] : action === OOM || action === SNAPSHOT ? "" : formatAddress(d.event_addr.at(e)), size];
  }

  describe(e) {
    const { device: d, view } = this, action = d.event_action.values[e], oom = d.oomOf.get(e);
    if (action === SNAPSHOT)
      return facts([["event", `${formatCount(e)}: a copy was taken`], ["active", formatBytes(d.event_size.at(e))],
        ["time", formatTime(d.time(e))]]);
    const span = d.spanOf(e);
    return facts([
      ["event", `${formatCount(e)}: ${ACTIONS[action]}`],
      ["size", formatExact(oom ? oom.size : d.event_size.at(e))],
      oom ? ["free on the device", oom.free === null ? "unknown" : formatBytes(oom.free)]
        : ["address", span >= 0 ? d.identity(span) : formatAddress(d.event_addr.at(e))],
      ["time", formatTime(d.time(e))],
      ["range", view.file.texts[d.event_annotation.values[e]]],
      ["thread", d.event_thread.values[e] || null],
    ]);
  }
}
