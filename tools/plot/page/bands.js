/*
 * The bands of the timeline for a window of events: which allocation, or which stack, fills which
 * part of each column of pixels. Each column shows the state after one event: of those that share it,
 * the one after which most was allocated, so that no peak is lost. Allocations that are large enough
 * to be seen are bands of their own, at the bottom, in the order of their requests; above them the
 * smaller ones of each stack together are a band. So the bands of a column add up to what was
 * allocated, at every zoom.
 */
const SINGLES_MAX = 4000, GROUPS_MAX = 256;
/* An allocation is drawn alone if it is so many pixels high and wide. */
const SINGLE_HIGH = 2, SINGLE_WIDE = 4;

class Bands {
  /* `edges`: count + 1 positions of columns, in events; column c has the events from edges[c] up to,
   * but not including, edges[c + 1]. */
  constructor(world, edges) {
    this.world = world;
    this.device = world.device;
    this.count = edges.length - 1;
    this.sample = this.chooseEvents(edges);
  }

  chooseEvents(edges) {
    const d = this.device, sample = new Int32Array(this.count);
    for (let c = 0; c < this.count; c++) {
      let best = Math.min(edges[c], d.events) - 1;
      const first = Math.max(0, edges[c]), end = Math.min(d.events, edges[c + 1]);
      if (end > first) {
        best = first;
        for (let e = first + 1; e < end; e++) {
          if (d.allocated[e] > d.allocated[best])
            best = e;
        }
      }
      sample[c] = best;
    }
    return sample;
  }

  /* The first column that shows the state after this event, or after a later one. */
  columns() {
    const { sample, count } = this, first = sample[0], last = sample[count - 1];
    const of = new Int32Array(last - first + 2);
    let c = 0;
    for (let e = first; e <= last; e++) {
      while (sample[c] < e)
        c++;
      of[e - first] = c;
    }
    return (event) => event <= first ? 0 : event > last ? count : of[event - first];
  }

  /* Decides what is drawn alone; `scale` is pixels a byte. */
  arrange(scale) {
    const { device: d, world, count } = this, columnOf = this.columns(), last = this.sample[count - 1];
    const { begin, freed, size } = d;
    const least = SINGLE_HIGH / scale, candidates = [];
    const groupOf = this.groupStacks();
    this.sums = this.groups.map(() => new Float64Array(count + 1));
    this.counts = this.groups.map(() => 0);
    const starts = [], ends = [];
    for (let i = 0; i < d.number && begin[i] <= last; i++) {
      if (freed[i] <= this.sample[0])
        continue;
      const from = columnOf(begin[i]), to = columnOf(freed[i]);
      if (from >= to)
        continue;
      if (i === world.block || (size[i] >= least && to - from >= SINGLE_WIDE)) {
        candidates.push(i);
        starts.push(from);
        ends.push(to);
      } else {
        this.join(i, from, to, groupOf);
      }
    }
    let bound = 0;
    const area = (k) => d.size[candidates[k]] * (ends[k] - starts[k]);
    if (candidates.length > SINGLES_MAX)
      bound = candidates.map((_, k) => area(k)).sort((a, b) => b - a)[SINGLES_MAX];
    this.singles = [];
    this.starts = [];
    this.ends = [];
    candidates.forEach((i, k) => {
      if (area(k) > bound || candidates.length <= SINGLES_MAX || i === world.block) {
        this.singles.push(i);
        this.starts.push(starts[k]);
        this.ends.push(ends[k]);
      } else {
        this.join(i, starts[k], ends[k], groupOf);
      }
    });
    for (const sum of this.sums) {
      for (let c = 1; c <= count; c++)
        sum[c] += sum[c - 1];
    }
  }

  join(i, from, to, groupOf) {
    const group = groupOf[this.world.file.labelOf[this.device.stack[i]]];
    this.sums[group][from] += this.device.size[i];
    this.sums[group][to] -= this.device.size[i];
    this.counts[group]++;
  }

  /* The stacks with most bytes have a band each, the others share the last one. */
  groupStacks() {
    const { file, colors } = this.world, groupOf = new Int32Array(file.names.length);
    const own = colors.order.slice(0, GROUPS_MAX);
    groupOf.fill(own.length);
    own.forEach((label, group) => {
      groupOf[label] = group;
    });
    this.groups = colors.order.length > GROUPS_MAX ? [...own, -1] : own;
    return groupOf;
  }

  /* Calls visit(from, to, single, group) for the bands of column after column, in bytes from below;
   * one of single and group is -1. */
  each(visitColumn, visit) {
    let alive = [], next = 0;
    for (let c = 0; c < this.count; c++) {
      alive = alive.filter((k) => this.ends[k] > c);
      while (next < this.singles.length && this.isDue(next, c)) {
        if (this.ends[next] > c)
          alive.push(next);
        next++;
      }
      visitColumn(c, this.visitBands(c, alive, visit));
    }
  }

  /* They are in the order of their requests, and so of their first columns. */
  isDue(k, c) {
    return this.starts[k] <= c;
  }

  visitBands(c, alive, visit) {
    let sum = 0;
    for (const k of alive) {
      const size = this.device.size[this.singles[k]];
      visit(c, sum, sum + size, this.singles[k], -1);
      sum += size;
    }
    for (let g = 0; g < this.groups.length; g++) {
      const size = this.sums[g][c];
      if (size < 0.5)
        continue;
      visit(c, sum, sum + size, -1, g);
      sum += size;
    }
    return sum;
  }

  /* The band of a column at so many bytes: { from, to, single, group }, or null. */
  at(c, bytes) {
    const alive = [];
    let found = null;
    for (let k = 0; k < this.singles.length && this.starts[k] <= c; k++) {
      if (this.ends[k] > c)
        alive.push(k);
    }
    this.visitBands(c, alive, (_, from, to, single, group) => {
      if (bytes >= from && bytes < to)
        found = { from, to, single, group };
    });
    return found;
  }
}
