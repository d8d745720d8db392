/* Elements, the tooltip and the canvas. */
const $ = (id) => document.getElementById(id);

/* Creates an element with children; text is never interpreted as HTML. */
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on"))
      node.addEventListener(key.slice(2), value);
    else if (key === "style")
      node.style.cssText = value;
    else if (value !== null && value !== undefined)
      node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/* Beside what it explains, never on it: below, above, to the right, to the left, or in the corner
 * that is farthest away. */
class Tip {
  constructor() {
    this.node = $("tip");
  }

  /* `target` is the rectangle [x, y, width, height] that is explained; without one it is the
   * pointer. No children: hides. */
  show({ clientX: x, clientY: y }, children, target) {
    this.node.replaceChildren(...children);
    this.node.hidden = !children.length;
    if (!children.length)
      return;
    const { width: w, height: h } = this.node.getBoundingClientRect();
    const [tx, ty, tw, th] = target || [x - 4, y - 8, 12, 22];
    const within = (value, size, room) => Math.max(4, Math.min(value, room - size - 4));
    const side = within(x - w / 3, w, innerWidth), level = within(y - h / 2, h, innerHeight);
    const places = [[side, ty + th + 6], [side, ty - h - 6], [tx + tw + 8, level], [tx - w - 8, level]];
    const fits = ([px, py]) => px >= 0 && py >= 0 && px + w <= innerWidth && py + h <= innerHeight;
    const [px, py] = places.find(fits) ||
      [x < innerWidth / 2 ? innerWidth - w - 4 : 4, y < innerHeight / 2 ? innerHeight - h - 4 : 4];
    this.node.style.left = px + "px";
    this.node.style.top = py + "px";
  }

  hide() {
    this.node.hidden = true;
  }
}

/* Calls describe() at each movement of the pointer; it returns the children of the tip, or an
 * object with `children` and `target`. */
function tipOver(node, tip, describe) {
  node.addEventListener("pointermove", (event) => {
    const told = describe(event);
    tip.show(event, told.children || told, told.target);
  });
  node.addEventListener("pointerleave", () => tip.hide());
}

function boxOf(node) {
  const box = node.getBoundingClientRect();
  return [box.x, box.y, box.width, box.height];
}

/* A list of names and values; what has no value is left out. */
function facts(pairs) {
  const list = element("dl");
  for (const [key, value] of pairs) {
    if (value !== null && value !== undefined && value !== "")
      list.append(element("dt", {}, key), element("dd", {}, value instanceof Node ? value : String(value)));
  }
  return list;
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
      if (!this.parent.clientWidth)
        return; /* in a tab that is hidden */
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

  /* A rectangle of the picture in the window. */
  inWindow([x, y, w, h]) {
    const box = this.node.getBoundingClientRect();
    return [box.left + x, box.top + y, w, h];
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

/* The text, or its beginning, such that it is not wider than `width`; "": not even that fits. */
function shorten(context, text, width) {
  const whole = context.measureText(text).width;
  if (whole <= width)
    return text;
  const characters = Math.floor(text.length * (width - 10) / whole);
  return characters > 2 ? text.slice(0, characters) + "\u2026" : "";
}

function buttonGroup(choices, chosen, pick) {
  const group = element("span", { class: "group" });
  for (const [value, label, title] of choices) {
    group.append(element("button", {
      "aria-pressed": String(value === chosen), title: title || "", "data-value": value,
      onclick: (event) => {
        for (const button of group.children)
          button.setAttribute("aria-pressed", String(button === event.currentTarget));
        pick(value);
      },
    }, label));
  }
  return group;
}

function checkbox(id, label, checked, set) {
  return element("label", { class: "check" }, element("input", {
    type: "checkbox", id, checked: checked ? "" : null, onchange: (event) => set(event.target.checked),
  }), label);
}

function notes(footer, ...texts) {
  footer.append(...texts.map((text) => element("span", {}, text)));
}

/* A line of a list of stacks: a colour if there is one, the name, the number and the bytes. */
function stackRow(attributes, color, name, count, bytes) {
  return element("div", { ...attributes, class: "row " + (attributes.class || "") },
    color && element("span", { class: "swatch", style: `background:${color}` }),
    element("span", { class: count ? "name" : "name count" }, name),
    count && element("span", { class: "count" }, "\u00d7" + formatCount(count)),
    element("span", { class: "bytes" }, bytes));
}

/* The frames of a stack, innermost first, at most `limit` of them. */
function frameList(about, stack, limit) {
  const frames = about.stacks[stack] || [];
  const list = element("ul", { class: "frames" });
  if (!frames.length)
    list.append(element("li", { class: "count" }, "no stack recorded"));
  for (const [at, number] of frames.slice(0, limit || frames.length).entries()) {
    const [name, file, line] = about.frames[number];
    const item = element("li", { class: at === about.caller_at[stack] ? "caller" : null },
      element("span", { class: "fn" }, name));
    if (file !== "??")
      item.append(element("span", { class: "at" }, file + (line ? ":" + line : "")));
    list.append(item);
  }
  if (limit && frames.length > limit)
    list.append(element("li", { class: "count" }, `${frames.length - limit} more; click to see`));
  return list;
}
