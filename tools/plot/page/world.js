/*
 * What all views of one device share: the selected range of events, the event under the cursor, the
 * selected block and stack, and the search. A view changes them here, and all views are informed;
 * those behind other tabs when they are shown.
 */
class World {
  constructor(page, file, device, tip) {
    this.page = page;
    this.file = file;
    this.device = device;
    this.tip = tip;
    this.search = new Search(file);
    this.colors = new Colors(file, device);
    this.range = null; /* [first, last] event, or all */
    this.cursor = device.peak; /* an event; -1 before the first */
    this.block = -1; /* an allocation */
    this.label = -1; /* stacks of one name */
    this.views = [];
  }

  /* Changes some of these, such as { cursor: 7, block: 12 }. */
  set(changes) {
    Object.assign(this, changes);
    for (const view of this.views)
      view.changed(Object.keys(changes));
  }

  /* The selected events. */
  get first() {
    return this.range ? this.range[0] : -1;
  }

  get last() {
    return this.range ? this.range[1] : this.device.events - 1;
  }

  isPicked(i) {
    return this.label < 0 || this.file.labelOf[this.device.stack[i]] === this.label;
  }

  /* Is this allocation faded, because others are searched for or selected? */
  isDim(i) {
    return !this.isPicked(i) || (this.search.active && !this.search.findsSpan(this.device, i));
  }

  pickLabel(label) {
    this.set({ label: this.label === label ? -1 : label });
  }

  /* The range in words: "events 12 to 40, 3.2 ms". */
  rangeText() {
    const d = this.device;
    if (!this.range)
      return "";
    return `events ${formatCount(Math.max(0, this.first))} to ${formatCount(this.last)}, ` +
      formatTime(d.time(this.last) - d.time(this.first));
  }
}

/* What the views have in common: a stage, a side and a line of controls in a tab of its own. */
class View {
  constructor(world, tab) {
    this.world = world;
    this.device = world.device;
    this.file = world.file;
    this.tip = world.tip;
    this.stage = tab.querySelector(".stage");
    this.side = tab.querySelector(".side");
    this.controls = tab.querySelector(".controls");
    this.footer = tab.querySelector("footer");
    this.canvas = null;
    this.keys = []; /* [names of keys, what they do, function] */
  }

  /* Some members of the world have changed. */
  changed() {}

  /* What a search found, in words; the view shows it. */
  searched() {
    return "";
  }

  /* Goes to the next thing that the search finds, or the one before. */
  searchNext() {}

  /* The view was shown. */
  shown() {
    if (this.canvas)
      this.canvas.draw();
  }

  /* A block in the side, with links to the other views. */
  describeHeld() {
    const { world, device: d } = this, i = world.block;
    if (i < 0)
      return [];
    const links = element("p", { class: "links" });
    for (const [name, title] of [["timeline", "timeline"], ["blocks", "blocks"], ["flame", "flame"]]) {
      if (world.show && this.name !== name)
        links.append(element("button", { onclick: () => world.show(name), "data-to": name }, `in ${title}`));
    }
    return [element("h2", {}, "Block"), this.describeSpan(i), links, frameList(this.file, d.stack[i])];
  }

  describeSpan(i) {
    const d = this.device, freed = d.freed[i], begin = d.begin[i];
    const when = (event) => `event ${formatCount(event)}, ${formatTime(d.time(event))}`;
    return facts([
      ["size", formatExact(d.size[i])],
      ["address", d.identity(i)],
      ["allocated", begin < 0 ? "before the first event" : when(begin)],
      ["freed", freed === END ? "still allocated" : freed < 0 ? "before the first event"
        : when(freed) + (begin < 0 ? "" : `, after ${formatTime(d.time(freed) - d.time(begin))}`)],
      ["ready", freed === END ? null : d.ready[i] === END ? "pending free" : when(d.ready[i])],
      ["range", this.file.texts[d.annotation(i)]],
      ["thread", d.thread(i) || null],
    ]);
  }
}
