/*
 * A search finds functions, files and ranges by a part of their name; addresses by their beginning
 * (0x7f3a) or by any byte of the block; and one use of an address by its number (0x7f3a00_2).
 */
class Search {
  constructor(file) {
    this.file = file;
    this.set("");
  }

  set(text) {
    const file = this.file;
    this.text = text.trim().toLowerCase();
    this.stacks = this.texts = null;
    this.ranges = [];
    this.use = null;
    if (!this.text)
      return;
    const address = /^0x([0-9a-f]+)(?:_(\d*))?$/.exec(this.text);
    if (address) {
      this.setAddress(address[1], address[2]);
      return;
    }
    const hit = file.frames.map(([name, path]) =>
      name.toLowerCase().includes(this.text) || path.toLowerCase().includes(this.text));
    this.stacks = file.stacks.map((frames) => frames.some((frame) => hit[frame]));
    this.texts = new Set(Object.entries(file.texts)
      .filter(([, each]) => each.toLowerCase().includes(this.text)).map(([id]) => Number(id)));
  }

  /* Addresses that begin with these digits, for each length that an address may have. */
  setAddress(digits, use) {
    const value = parseInt(digits, 16);
    this.exact = value;
    if (use !== undefined) {
      this.use = use === "" ? null : Number(use);
      this.ranges = [[value, value + 1]];
      return;
    }
    for (let more = 0; more <= 16 - digits.length; more++)
      this.ranges.push([value * 16 ** more, (value + 1) * 16 ** more]);
  }

  get active() {
    return this.text !== "";
  }

  isAddress(address, size) {
    for (const [from, to] of this.ranges) {
      if (address >= from && address < to)
        return true;
    }
    return this.use === null && this.exact >= address && this.exact < address + size;
  }

  findsSpan(device, i) {
    if (this.stacks)
      return this.stacks[device.stack[i]] || this.texts.has(device.annotation(i));
    return this.isAddress(device.address(i), device.size[i]) &&
      (this.use === null || device.useOf(i) === this.use);
  }

  findsEvent(device, event) {
    const action = device.event_action.values[event];
    if (this.stacks)
      return this.stacks[device.event_stack.values[event]] ||
        this.texts.has(device.event_annotation.values[event]) || ACTIONS[action].includes(this.text);
    if (action === OOM || action === SNAPSHOT ||
        !this.isAddress(device.event_addr.at(event), device.event_size.at(event)))
      return false;
    if (this.use === null)
      return true;
    const span = device.spanOf(event);
    return span >= 0 && device.useOf(span) === this.use;
  }
}
