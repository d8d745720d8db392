/* Shared by all pages: the data, formats of numbers, colours, the tooltip. */
const BEFORE = 0xffffffff, NEVER = 0xfffffffe;
const ACTIONS = ["none", "alloc", "free_requested", "free_completed", "segment_alloc",
  "segment_free", "segment_map", "segment_unmap", "oom", "snapshot"];
const OOM = 8, SNAPSHOT = 9, FREE_UNKNOWN = 2 ** 64 - 1;
const $ = (id) => document.getElementById(id);

function formatBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, value = Math.abs(bytes);
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return (bytes < 0 ? "-" : "") + value.toFixed(digits) + " " + units[unit];
}

/* For an axis: "32 MiB" instead of the "32.0 MiB" of formatBytes. */
function formatTick(bytes) {
  return formatBytes(bytes).replace(/\.0+ /, " ");
}

function formatCount(count) {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function formatTime(ms) {
  if (ms < 1)
    return (ms * 1000).toFixed(ms < 0.01 ? 1 : 0) + " \u00b5s";
  if (ms < 1000)
    return ms.toFixed(ms < 10 ? 2 : 1) + " ms";
  if (ms < 60000)
    return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
  const s = Math.round(ms / 1000), m = Math.floor(s / 60) % 60, h = Math.floor(s / 3600);
  return (h ? h + ":" + String(m).padStart(2, "0") : m) + ":" + String(s % 60).padStart(2, "0");
}

function formatAddress(address) {
  return "0x" + address.toString(16);
}

/* Creates an element with children; text is never interpreted as HTML. */
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on"))
      node.addEventListener(key.slice(2), value);
    else if (key === "style")
      node.style.cssText = value;
    else
      node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

async function unpackData() {
  const node = $("data");
  let bytes = Uint8Array.from(atob(node.textContent), (c) => c.charCodeAt(0));
  if (node.dataset.packing === "gzip") {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  node.remove();
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const start = Math.ceil((4 + length) / 8) * 8;
  const types = { u8: Uint8Array, u32: Uint32Array, f64: Float64Array };
  for (const device of about.devices) {
    for (const [name, type, at, count] of device.columns)
      device[name] = new types[type](bytes.buffer, start + at, count);
  }
  /* The name of a stack on one line. */
  about.labels = about.callers.map((caller, i) =>
    about.behind[i] ? `${caller} < ${about.behind[i]}` : caller);
  return about;
}

/* Adjacent colours differ clearly in both themes; further stacks reuse them. */
const PALETTE = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#edc948",
  "#ff9da7", "#9c755f", "#86bcb6", "#d37295", "#8cd17d", "#a0cbe8", "#b6992d", "#499894",
  "#f1ce63", "#d4a6c8", "#79706e", "#fabfd2", "#6b8fd6"].map((hex) => [1, 3, 5].map(
  (at) => parseInt(hex.slice(at, at + 2), 16)));

class Colors {
  /* `weights`: stack -> bytes; the callers with most bytes get the first colours. */
  constructor(about, weights) {
    const byCaller = new Map();
    for (const [stack, bytes] of weights) {
      const caller = about.labels[stack];
      byCaller.set(caller, (byCaller.get(caller) || 0) + bytes);
    }
    const order = [...byCaller].sort((a, b) => b[1] - a[1]).map(([caller]) => caller);
    const rank = new Map(order.map((caller, i) => [caller, i]));
    /* The stacks of one caller have shades of one colour. */
    const shade = new Map();
    this.rgb = about.labels.map((caller) => {
      const base = PALETTE[(rank.has(caller) ? rank.get(caller) : 0) % PALETTE.length];
      const n = shade.get(caller) || 0;
      shade.set(caller, n + 1);
      const factor = 1 + ((n % 5) - 2) * 0.055 * (n > 0 ? 1 : 0);
      return base.map((c) => Math.max(0, Math.min(255, Math.round(c * factor))));
    });
    this.rgb[0] = rank.size <= 1 ? PALETTE[0] : [150, 158, 170];
  }

  css(stack) {
    return `rgb(${this.rgb[stack].join()})`;
  }
}

class Tip {
  constructor() {
    this.node = $("tip");
  }

  /* Shows the elements beside the pointer; hides without any. */
  show({ clientX: x, clientY: y }, children) {
    this.node.replaceChildren(...children);
    this.node.hidden = !children.length;
    const box = this.node.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - box.width - 12 : x + 16;
    const top = Math.max(4, Math.min(y + 14, innerHeight - box.height - 6));
    this.node.style.left = Math.max(4, left) + "px";
    this.node.style.top = top + "px";
  }

  hide() {
    this.node.hidden = true;
  }
}

function facts(pairs) {
  const list = element("dl");
  for (const [key, value] of pairs) {
    if (value !== null && value !== undefined && value !== "")
      list.append(element("dt", {}, key), element("dd", {}, String(value)));
  }
  return list;
}

function frameList(about, stack, limit) {
  const frames = about.stacks[stack] || [];
  const list = element("ul", { class: "frames" });
  if (!frames.length)
    list.append(element("li", { class: "count" }, "no stack recorded"));
  let caller = about.callers[stack];
  for (const number of frames.slice(0, limit || frames.length)) {
    const [name, file, line] = about.frames[number];
    const item = element("li", {}, element("span", { class: "fn" }, name));
    if (name === caller) {
      item.className = "caller";
      caller = null;
    }
    if (file !== "??")
      item.append(element("span", { class: "at" }, file + (line ? ":" + line : "")));
    list.append(item);
  }
  if (limit && frames.length > limit)
    list.append(element("li", { class: "count" }, `${frames.length - limit} more; click to see`));
  return list;
}

/* The stacks that match a search; the views search annotations and addresses themselves. */
class Search {
  constructor(about) {
    this.about = about;
    this.text = "";
    this.stacks = null;
  }

  set(text) {
    this.text = text.trim().toLowerCase();
    this.stacks = null;
    if (!this.text)
      return;
    const hit = this.about.frames.map(([name, file]) =>
      name.toLowerCase().includes(this.text) || file.toLowerCase().includes(this.text));
    this.stacks = this.about.stacks.map((frames) => frames.some((frame) => hit[frame]));
    this.texts = new Set(Object.entries(this.about.texts)
      .filter(([, text]) => text.toLowerCase().includes(this.text)).map(([id]) => Number(id)));
  }

  get active() {
    return this.text !== "";
  }

  matches(stack, annotation, address) {
    return this.stacks[stack] || this.texts.has(annotation) ||
      (this.text.startsWith("0x") && formatAddress(address).startsWith(this.text));
  }
}

/* A canvas that fills its parent, at the resolution of the screen. */
class Canvas {
  constructor(parent, draw) {
    this.node = element("canvas");
    this.context = this.node.getContext("2d");
    parent.append(this.node);
    this.parent = parent;
    this.drawNow = draw;
    this.wanted = false;
    this.drawn = false;
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(parent);
  }

  /* Draws once before the next frame, however often it is called. */
  draw() {
    if (this.wanted)
      return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.resize();
      this.context.fillStyle = cssColor("--back");
      this.context.fillRect(0, 0, this.width, this.height);
      this.drawNow(this.context, this.width, this.height);
      this.drawn = true;
    });
  }

  /* The place of a pointer event in the picture. */
  place(event) {
    const box = this.node.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  resize() {
    this.ratio = devicePixelRatio || 1;
    this.width = this.parent.clientWidth;
    this.height = this.parent.clientHeight;
    const w = Math.max(1, Math.round(this.width * this.ratio));
    const h = Math.max(1, Math.round(this.height * this.ratio));
    if (this.node.width !== w || this.node.height !== h) {
      this.node.width = w;
      this.node.height = h;
      this.node.style.width = this.width + "px";
      this.node.style.height = this.height + "px";
    }
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
  }
}

/* Writes a text whose side or middle named by `align`, such as "right middle", is at x and y. */
function write(context, text, x, y, color, font, align) {
  [context.textAlign, context.textBaseline] = align.split(" ");
  context.fillStyle = color;
  context.font = font;
  context.fillText(text, x, y);
}

/* Calls describe() at each movement of the pointer; what it returns is shown beside the pointer. */
function tipOver(node, tip, describe) {
  node.addEventListener("pointermove", (event) => tip.show(event, describe(event)));
  node.addEventListener("pointerleave", () => tip.hide());
}

function notes(footer, ...texts) {
  footer.append(...texts.map((text) => element("span", {}, text)));
}

/* The events in which each allocation begins and is freed: -1 before the first, Infinity never. */
function readSpans(d) {
  return {
    begin: Int32Array.from(d.span_begin, (v) => v === BEFORE ? -1 : v),
    freed: Float64Array.from(d.span_freed, (v) => v === BEFORE ? -1 : v === NEVER ? Infinity : v),
  };
}

function colorsOfSpans(about, d) {
  const weights = new Map();
  for (let i = 0; i < d.span_size.length; i++)
    weights.set(d.span_stack[i], (weights.get(d.span_stack[i]) || 0) + d.span_size[i]);
  return new Colors(about, weights);
}

/* Black or white, whichever is seen better on the colour. */
function inkOn(rgb) {
  return rgb[0] * 0.3 + rgb[1] * 0.59 + rgb[2] * 0.11 > 134 ? "#15181d" : "#ffffff";
}

function formatExact(bytes) {
  return `${formatBytes(bytes)}  (${formatCount(bytes)} bytes)`;
}

function formatPercent(part, whole) {
  return (100 * part / whole).toFixed(1) + "%";
}

/* A line of a list of stacks: a colour if there is one, the name, the number and the bytes. */
function stackRow(attributes, color, name, count, bytes) {
  return element("div", { class: "row", ...attributes },
    color && element("span", { class: "swatch", style: `background:${color}` }),
    element("span", { class: count ? "name" : "name count" }, name),
    count && element("span", { class: "count" }, "\u00d7" + formatCount(count)),
    element("span", { class: "bytes" }, bytes));
}

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function parseColor(text) {
  const hex = text.replace("#", "");
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/* Steps of 1, 2, 4, 8 ... times a unit for bytes, of 1, 2, 5 for other numbers. */
function byteStep(range, count) {
  return 2 ** Math.ceil(Math.log2(Math.max(1, range / count)));
}

function decimalStep(range, count) {
  const raw = Math.max(range / count, 1e-9), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw);
  return step * power;
}

function buttonGroup(choices, chosen, pick) {
  const group = element("span", { class: "group" });
  for (const [value, label, title] of choices) {
    group.append(element("button", {
      "aria-pressed": String(value === chosen), title: title || "",
      "data-value": value,
      onclick: (event) => {
        for (const button of group.children)
          button.setAttribute("aria-pressed", String(button === event.currentTarget));
        pick(value);
      },
    }, label));
  }
  return group;
}

/* The index of the last element that is not above `value`; -1: all are above. */
function lastAtMost(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] <= value)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}
