/* Starts the page; an error is shown instead of the picture. */
async function start() {
  const about = await unpackData();
  const tip = new Tip(), search = new Search(about);
  let view = null;
  $("program").textContent = about.program;
  $("kind").textContent = TITLE;
  document.title = `${about.program}: ${TITLE}`;
  $("facts").textContent = [about.command, `process ${about.pid}`,
    ["taken " + about.time.replace("T", " ").replace(/\.\d+Z/, " UTC"), ...about.remarks].join(", "),
    about.tool].join("  \u00b7  ");
  $("facts").title = about.command;
  about.devices.forEach((device, i) =>
    $("device").append(element("option", { value: i }, device.name)));
  const show = (number) => {
    for (const id of ["stage", "side", "controls", "footer"])
      $(id).replaceChildren();
    tip.hide();
    const device = about.devices[number];
    view = new View({ about, device, tip, search, stage: $("stage"), side: $("side"),
      controls: $("controls"), footer: $("footer") });
    window.view = view;
    if (device.lost)
      $("footer").append(element("span", { class: "alarm" },
        `${formatCount(device.lost)} older events are lost: the ring holds the last ones only`));
  };
  if (!about.devices.length) {
    $("stage").append(element("p", { class: "empty" }, "This process has used no GPU memory."));
  } else {
    const most = Math.max(...about.devices.map((device) => device.events));
    const best = about.devices.findIndex((device) => device.events === most);
    $("device").value = String(best);
    $("device").addEventListener("change", () => show(Number($("device").value)));
    $("search").addEventListener("input", () => {
      search.set($("search").value);
      $("found").textContent = view.searched();
    });
    show(best);
  }
  const tell = () => {
    if (view && view.canvas && !view.canvas.drawn)
      requestAnimationFrame(tell);
    else
      document.documentElement.dataset.ready = "yes";
  };
  tell();
}

start().catch((error) => {
  $("stage").append(element("p", { class: "empty alarm" },
    typeof DecompressionStream === "undefined" ? "This browser is too old to unpack the data."
      : `The page could not be drawn: ${error.message}`));
  document.documentElement.dataset.ready = "failed";
  console.error(error);
});
