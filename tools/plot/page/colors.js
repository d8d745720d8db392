/* Colours of stacks, and of the page. */

/* Adjacent colours differ clearly in both themes; further stacks reuse them. */
const PALETTE = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#edc948",
  "#ff9da7", "#9c755f", "#86bcb6", "#d37295", "#8cd17d", "#a0cbe8", "#b6992d", "#499894",
  "#f1ce63", "#d4a6c8", "#79706e", "#fabfd2", "#6b8fd6"].map(parseColor);
const NEUTRAL = [150, 158, 170];

class Colors {
  /* The callers with most bytes get the first colours; the stacks of one caller have shades of one. */
  constructor(file, device) {
    const weights = new Float64Array(file.names.length);
    for (let i = 0; i < device.number; i++)
      weights[file.labelOf[device.stack[i]]] += device.size[i];
    const order = [...weights.keys()].filter((label) => weights[label]).sort((a, b) => weights[b] - weights[a]);
    const rank = new Map(order.map((label, i) => [label, i]));
    const seen = new Map();
    this.order = order;
    this.rgb = file.lines.map((_, stack) => {
      const label = file.labelOf[stack];
      const n = seen.get(label) || 0;
      seen.set(label, n + 1);
      return shade(PALETTE[(rank.get(label) || 0) % PALETTE.length], n);
    });
    if (rank.size > 1)
      this.rgb[0] = NEUTRAL;
  }

  css(stack) {
    return `rgb(${this.rgb[stack].join()})`;
  }
}

function shade(base, n) {
  const factor = n ? 1 + ((n % 5) - 2) * 0.055 : 1;
  return base.map((c) => Math.max(0, Math.min(255, Math.round(c * factor))));
}

/* Black or white, whichever is seen better on the colour. */
function inkOn(rgb) {
  return rgb[0] * 0.3 + rgb[1] * 0.59 + rgb[2] * 0.11 > 134 ? "#15181d" : "#ffffff";
}

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function parseColor(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}
