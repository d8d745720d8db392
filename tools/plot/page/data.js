/* The data of the page: files, their devices, and of each device its events and allocations. */
/* In columns of events; in memory they are -1 and END, which compare as they should. */
const BEFORE = 0xffffffff, NEVER = 0xfffffffe, END = 0x7fffffff;
const ACTIONS = ["none", "alloc", "free requested", "free completed", "segment alloc",
  "segment free", "segment map", "segment unmap", "oom", "snapshot"];
const ALLOC = 1, FREE_REQUESTED = 2, FREE_COMPLETED = 3, SEGMENT_ALLOC = 4, SEGMENT_FREE = 5,
  SEGMENT_MAP = 6, SEGMENT_UNMAP = 7, OOM = 8, SNAPSHOT = 9;

/* The index of the last of `length` elements, by `at(index)`, that is not above `value`; -1: all
 * are above. */
function lastAtMost(length, at, value) {
  let low = 0, high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(middle) <= value)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}

/* A column of numbers, stored as (value - base) / unit in the smallest type that holds it. */
class Column {
  constructor(values, base, unit) {
    this.values = values;
    this.base = base;
    this.unit = unit;
    this.length = values.length;
  }

  at(i) {
    return this.base + this.values[i] * this.unit;
  }
}

function toEvents(column) {
  const events = new Int32Array(column.length), { values } = column;
  for (let i = 0; i < events.length; i++)
    events[i] = values[i] === BEFORE ? -1 : values[i] === NEVER ? END : values[i];
  return events;
}

/* Events are numbered from 0; -1 is before the first one, END after the last one. */
class Device {
  constructor(facts, columns) {
    Object.assign(this, facts, columns);
    this.number = this.span_begin.length;
    this.before = this.before_addr.length;
    this.begin = toEvents(this.span_begin);
    this.freed = toEvents(this.span_freed);
    this.ready = toEvents(this.span_ready);
    this.size = new Float64Array(this.number);
    for (let i = 0; i < this.number; i++)
      this.size[i] = this.begin[i] < 0 ? this.before_size.at(i) : this.event_size.at(this.begin[i]);
    this.stack = this.span_stack.values;
    this.oomOf = new Map(this.ooms.map(([event, size, free]) => [event, { size, free }]));
    this.measure();
  }

  /* The memory that was allocated and active after each event; reserved memory changes seldom. */
  measure() {
    const actions = this.event_action.values;
    this.allocated = new Float64Array(this.events);
    this.active = new Float64Array(this.events);
    this.reservedAt = [-1];
    this.reservedBytes = [this.reserved_at_start];
    let allocated = this.allocated_at_start, active = this.active_at_start, reserved = this.reserved_at_start;
    for (let e = 0; e < this.events; e++) {
      const action = actions[e], size = this.event_size.at(e);
      if (action === ALLOC) {
        allocated += size;
        active += size;
      } else if (action === FREE_REQUESTED) {
        allocated = Math.max(0, allocated - size);
      } else if (action === FREE_COMPLETED) {
        active = Math.max(0, active - size);
      } else if (action >= SEGMENT_ALLOC && action <= SEGMENT_UNMAP) {
        const grows = action === SEGMENT_ALLOC || action === SEGMENT_MAP;
        reserved = Math.max(0, reserved + (grows ? size : -size));
        this.reservedAt.push(e);
        this.reservedBytes.push(reserved);
      }
      this.allocated[e] = allocated;
      this.active[e] = active;
    }
  }

  allocatedAt(event) {
    return event < 0 ? this.allocated_at_start : this.allocated[event];
  }

  activeAt(event) {
    return event < 0 ? this.active_at_start : this.active[event];
  }

  /* Memory outside the cache after an event. */
  uncachedAfter(event) {
    return this.event_uncached ? this.event_uncached.at(Math.max(0, event)) : 0;
  }

  reservedAfter(event) {
    return this.reservedBytes[lastAtMost(this.reservedAt.length, (i) => this.reservedAt[i], event)];
  }

  /* Milliseconds since the first event. */
  time(event) {
    return event < 0 || !this.events ? 0
      : this.event_time.values[Math.min(event, this.events - 1)] * this.unit_ns / 1e6;
  }

  /* The last event that is not after so many milliseconds. */
  eventAt(ms) {
    const times = this.event_time.values, sought = ms * 1e6 / this.unit_ns;
    return lastAtMost(this.events, (e) => times[e], sought);
  }

  address(i) {
    return this.begin[i] < 0 ? this.before_addr.at(i) : this.event_addr.at(this.begin[i]);
  }

  annotation(i) {
    return this.begin[i] < 0 ? 0 : this.event_annotation.values[this.begin[i]];
  }

  thread(i) {
    return this.begin[i] < 0 ? 0 : this.event_thread.values[this.begin[i]];
  }

  /* Was it allocated, and not yet freed, after that event? */
  isLive(i, event) {
    return this.begin[i] <= event && this.freed[i] > event;
  }

  /* Was it allocated or pending after that event? The device may still use pending memory. */
  isActive(i, event) {
    return this.begin[i] <= event && this.ready[i] > event;
  }

  /* The number of an allocation among those at its address, from 0. */
  useOf(i) {
    const address = this.address(i);
    let use = 0;
    for (let k = 0; k < i; k++)
      use += this.address(k) === address;
    return use;
  }

  identity(i) {
    return `${formatAddress(this.address(i))}_${this.useOf(i)}`;
  }

  /* The allocation that an event begins or ends; -1: it is about none. */
  spanOf(event) {
    const action = this.event_action.values[event];
    if (!(action >= ALLOC && action <= FREE_COMPLETED))
      return -1;
    if (action === ALLOC) {
      const i = lastAtMost(this.number, (k) => this.begin[k], event);
      return this.begin[i] === event ? i : -1;
    }
    const ends = action === FREE_REQUESTED ? this.freed : this.ready;
    return ends.indexOf(event);
  }

  /* The event in [from, to] after which most was allocated, the first one of these. */
  peakIn(from, to) {
    let best = from;
    for (let e = Math.max(0, from); e <= to && e < this.events; e++) {
      if (this.allocatedAt(e) > this.allocatedAt(best))
        best = e;
    }
    return best;
  }
}

function decodeBase64(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++)
    bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unpackData() {
  const node = $("data");
  const packed = node.dataset.packing === "gzip";
  let bytes = decodeBase64(node.textContent);
  node.remove();
  if (packed) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const page = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const start = Math.ceil((4 + length) / 8) * 8;
  for (const file of page.files)
    readFile(file, bytes.buffer, start);
  return page;
}

function readFile(file, buffer, start) {
  const types = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array };
  file.devices = file.devices.map((facts) => {
    const columns = {};
    for (const [name, type, at, count, base, unit, differences] of facts.columns) {
      const values = new types[type](buffer, start + at, count);
      if (differences) {
        for (let i = 1; i < count; i++)
          values[i] += values[i - 1];
      }
      columns[name] = new Column(values, base, unit);
    }
    return new Device(facts, columns);
  });
  /* Stacks with the same line, the frame that matters and its callers, are one row of a table. */
  file.names = [];
  file.stackOfLabel = [];
  const numbers = new Map();
  file.labelOf = Uint32Array.from(file.lines, (label, stack) => {
    if (!numbers.has(label)) {
      numbers.set(label, numbers.size);
      file.names.push(label);
      file.stackOfLabel.push(stack);
    }
    return numbers.get(label);
  });
}
