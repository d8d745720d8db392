/* The keys of the page and of the view that is shown, and the help that lists them. They work
 * wherever the focus is, except in a field. */
class Keys {
  constructor(page) {
    this.page = page; /* rows as those of a view */
    this.view = null;
    this.help = $("keys");
    document.addEventListener("keydown", (event) => this.press(event));
    $("help").addEventListener("click", () => this.toggle());
    this.help.addEventListener("click", () => this.help.close());
  }

  press(event) {
    const typed = event.target.closest && event.target.closest("input[type=search], input[type=text], select");
    if (event.ctrlKey || event.metaKey || event.altKey || (typed && event.key !== "Escape"))
      return;
    const rows = [...(this.view ? this.view.keys : []), ...this.page];
    const row = rows.find(([names]) => names.includes(event.key));
    if (this.help.open && event.key !== "?")
      return;
    if (!row)
      return;
    event.preventDefault();
    row[2](event.key);
  }

  toggle() {
    if (this.help.open) {
      this.help.close();
      return;
    }
    const spell = { ArrowLeft: "\u2190", ArrowRight: "\u2192", ArrowUp: "\u2191", ArrowDown: "\u2193" };
    const list = (title, rows) => !rows.length ? [] : [element("h2", {}, title), facts(rows.map(([names, what]) =>
      [names.filter((name) => name !== "=").map((name) => spell[name] || name).join(" "), what]))];
    this.help.replaceChildren(
      ...(this.view ? list("This view", [...this.view.keys, ...(this.view.gestures || [])
        .map(([what, does]) => [[what], does])]) : []),
      ...list("All views", this.page));
    this.help.showModal();
  }
}
