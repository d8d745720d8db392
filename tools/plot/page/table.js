/*
 * Allocations by stack, for a range of events: what a stack holds at the cursor and its share, how
 * many it allocated in the range, their bytes, and how long they lived on average. The rows add up to
 * all there is; a click on a heading sorts, the field filters.
 */
const TABLE_COLUMNS = [["held", "held", "bytes held at the cursor"], ["share", "%", "share of what is allocated there"],
  ["count", "number", "allocations in the range"], ["bytes", "bytes", "their sizes added up"],
  ["life", "life", "mean time until the free, of those allocated and freed in the range"]];
const ROWS_MAX = 200;

/* One row a label: { label, stack, held, blocks, count, bytes, life, share }. */
function sumByStack(world, from, to, cursor) {
  const { device: d, file } = world, { begin, freed, size, stack } = d, times = d.event_time.values;
  const [held, blocks, count, bytes, ended, time] = Array.from({ length: 6 }, () => new Float64Array(file.names.length));
  for (let i = 0; i < d.number && begin[i] <= Math.max(to, cursor); i++) {
    const label = file.labelOf[stack[i]];
    if (begin[i] <= cursor && freed[i] > cursor) {
      held[label] += size[i];
      blocks[label]++;
    }
    if (begin[i] > to || freed[i] <= from)
      continue;
    count[label]++;
    bytes[label] += size[i];
    if (begin[i] >= 0 && begin[i] >= from && freed[i] <= to) {
      ended[label]++;
      time[label] += times[freed[i]] - times[begin[i]];
    }
  }
  const total = held.reduce((sum, each) => sum + each, 0);
  const rows = [...held.keys()].filter((label) => blocks[label] || count[label]).map((label) => ({
    label, stack: file.stackOfLabel[label], held: held[label], blocks: blocks[label], count: count[label],
    bytes: bytes[label], share: total ? held[label] / total : 0,
    life: ended[label] ? time[label] / ended[label] * d.unit_ns / 1e6 : null,
  }));
  return { rows, held: total };
}

class StackTable {
  constructor(world) {
    this.world = world;
    this.by = "held";
    this.down = true;
    this.text = "";
    this.body = element("div", { class: "rows" });
    this.filter = element("input", {
      type: "text", class: "filter", placeholder: "filter stacks", spellcheck: "false",
      oninput: () => {
        this.text = this.filter.value.trim().toLowerCase();
        this.fill();
      },
    });
    this.heads = element("div", { class: "heads" }, ...TABLE_COLUMNS.map(([by, name, title]) =>
      element("button", { title, "data-by": by, onclick: () => this.sort(by) }, name)));
    this.node = element("div", { class: "stacks" }, this.filter, this.heads, this.body);
  }

  sort(by) {
    this.down = this.by === by ? !this.down : true;
    this.by = by;
    this.fill();
  }

  /* `rows` of sumByStack(). */
  show(rows) {
    this.rows = rows;
    this.fill();
  }

  fill() {
    const { world } = this, { file } = world, sign = this.down ? -1 : 1;
    const wanted = this.rows.filter((row) => !this.text || file.names[row.label].toLowerCase().includes(this.text));
    wanted.sort((a, b) => sign * ((a[this.by] ?? -1) - (b[this.by] ?? -1)) || b.bytes - a.bytes);
    for (const head of this.heads.children)
      head.className = head.dataset.by === this.by ? (this.down ? "down" : "up") : "";
    const lines = wanted.slice(0, ROWS_MAX).map((row) => this.line(row));
    if (wanted.length > ROWS_MAX)
      lines.push(element("div", { class: "count" }, `and ${formatCount(wanted.length - ROWS_MAX)} more stacks`));
    this.body.replaceChildren(...lines);
  }

  line(row) {
    const { world } = this, name = world.file.names[row.label];
    return element("div", {
      class: "stack" + (world.label === row.label ? " on" : ""), title: name, "data-label": row.label,
      onclick: () => world.pickLabel(row.label),
    },
    element("div", { class: "who" },
      element("span", { class: "swatch", style: `background:${world.colors.css(row.stack)}` }),
      element("span", { class: "name" }, name)),
    element("div", { class: "figures" },
      element("span", {}, row.held ? formatBytes(row.held) : "\u2013"),
      element("span", {}, row.held ? (100 * row.share).toFixed(1) : ""),
      element("span", {}, formatCount(row.count)),
      element("span", {}, formatBytes(row.bytes)),
      element("span", {}, row.life === null ? "\u2013" : formatTime(row.life))));
  }
}
