/* Starts the page; an error is shown instead of the picture. */
const VIEWS = [["timeline", "Timeline", TimelineView], ["blocks", "Blocks", BlocksView],
  ["flame", "Flame", FlameView], ["sizes", "Sizes", SizesView], ["summary", "Summary", SummaryView],
  ["compare", "Compare", CompareView]];

class Page {
  constructor(about) {
    this.about = about;
    this.tip = new Tip();
    const wanted = about.kind === "page"
      ? VIEWS.filter(([name]) => name !== "compare" || about.files.length > 1)
      : VIEWS.filter(([name]) => name === about.kind);
    this.names = wanted.map(([name]) => name);
    for (const [name, title] of wanted)
      this.addTab(name, title);
    $("tabs").hidden = wanted.length < 2;
    about.files.forEach((file, i) => $("file").append(element("option", { value: i }, this.fileName(file, i))));
    $("file").hidden = about.files.length < 2;
    $("file").addEventListener("change", () => this.open(Number($("file").value)));
    $("device").addEventListener("change", () => this.choose(Number($("device").value)));
    $("search").addEventListener("input", () => this.search($("search").value));
    $("search").addEventListener("keydown", (event) => this.searchKey(event));
    this.keys = new Keys([
      [["/"], "search", () => $("search").focus()],
      [["n", "N"], "the next that the search finds, the one before", (key) => this.view.searchNext(key === "N" ? -1 : 1)],
      [["Escape"], "let go of search, range, block and stack", () => this.letGo()],
      ...(wanted.length > 1 ? [[wanted.map((_, i) => String(i + 1)), "the views",
        (key) => this.show(this.names[Number(key) - 1])]] : []),
      [["?"], "this help", () => this.keys.toggle()],
    ]);
    this.open(0);
  }

  fileName(file, i) {
    return this.about.files.length < 2 ? file.program
      : `${String.fromCharCode(65 + i)}: ${file.program} ${file.pid}`;
  }

  addTab(name, title) {
    $("tabs").append(element("button", { role: "tab", "data-view": name, onclick: () => this.show(name) }, title));
    $("views").append(element("section", { id: name, class: "tab", hidden: "" },
      element("div", { class: "controls" }),
      element("main", {}, element("div", { class: "stage" }), element("aside", { class: "side" })),
      element("footer")));
  }

  /* Opens a file at its device with the most events. */
  open(number) {
    const file = this.file = this.about.files[number];
    $("program").textContent = file.program;
    document.title = `${file.program}: GPU memory`;
    $("facts").textContent = [file.command, `process ${file.pid}`,
      ["taken " + file.time.replace("T", " ").replace(/\.\d+Z/, " UTC"), ...file.remarks].join(", "),
      this.about.tool].join("  \u00b7  ");
    $("facts").title = $("facts").textContent;
    $("device").replaceChildren(...file.devices.map((device, i) => element("option", { value: i }, device.name)));
    const most = Math.max(...file.devices.map((device) => device.events));
    this.choose(file.devices.findIndex((device) => device.events === most));
  }

  choose(number) {
    const device = this.file.devices[number];
    const before = this.view && this.view.name;
    this.device = number;
    this.made = {};
    this.view = null;
    if (!device) {
      this.world = null;
      $("views").replaceChildren(element("p", { class: "empty" }, "This process has used no GPU memory."));
      return;
    }
    $("device").value = String(number);
    this.world = new World(this.about, this.file, device, this.tip);
    this.world.number = number;
    if (this.names.length > 1)
      this.world.show = (name) => this.show(name);
    window.world = this.world;
    this.show(before || this.names[0]);
    this.search($("search").value);
  }

  make(name) {
    const tab = $(name), [, , kind] = VIEWS.find(([each]) => each === name), lost = this.world.device.lost;
    for (const part of tab.querySelectorAll(".stage, .side, .controls, footer"))
      part.replaceChildren();
    const view = this.made[name] = new kind(this.world, tab);
    view.name = name;
    this.world.views.push(view);
    if (lost)
      view.footer.append(element("span", { class: "alarm" },
        `${formatCount(lost)} older events are lost: the ring holds the last ones only`));
    return view;
  }

  show(name) {
    if (!this.world || !this.names.includes(name))
      return;
    for (const each of this.names)
      $(each).hidden = each !== name;
    for (const button of $("tabs").children)
      button.setAttribute("aria-pressed", String(button.dataset.view === name));
    this.tip.hide();
    this.view = this.made[name] || this.make(name);
    window.view = this.keys.view = this.view;
    this.view.shown();
    $("found").textContent = this.view.searched();
  }

  search(text) {
    if (!this.world)
      return;
    this.world.search.set(text);
    this.world.set({ search: this.world.search });
    $("found").textContent = this.view.searched();
  }

  searchKey(event) {
    if (event.key !== "Enter")
      return;
    event.preventDefault();
    this.view.searchNext(event.shiftKey ? -1 : 1);
  }

  letGo() {
    if (!this.world)
      return;
    $("search").value = "";
    $("search").blur();
    this.world.set({ range: null, block: -1, label: -1 });
    this.search("");
  }
}

async function start() {
  const page = new Page(await unpackData());
  window.page = page;
  const tell = () => {
    if (page.view && page.view.canvas && !page.view.canvas.drawn)
      requestAnimationFrame(tell);
    else
      document.documentElement.dataset.ready = "yes";
  };
  tell();
}

start().catch((error) => {
  $("views").replaceChildren(element("p", { class: "empty alarm" },
    typeof DecompressionStream === "undefined" ? "This browser is too old to unpack the data."
      : `The page could not be drawn: ${error.message}`));
  document.documentElement.dataset.ready = "failed";
  console.error(error);
});
