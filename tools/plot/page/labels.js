/*
 * The labels of a picture. Each has several places, and gets the first of them where it lies within
 * the plot and touches no label that was put before; without such a place it is left out. They are
 * written last, above the lines.
 */
const LABEL_HIGH = 13, LABEL_GAP = 4;

class Labels {
  constructor(plot) {
    this.plot = plot;
    this.boxes = []; /* [left, top, width, height] */
    this.texts = []; /* what write() takes, and the colour of the background */
  }

  /* `places`: [x, y, align] as write() has them. With `back` the label covers what is under it. */
  put(context, text, color, font, places, back) {
    context.font = font;
    const w = context.measureText(text).width;
    for (const [x, y, align] of places) {
      const [side, level] = align.split(" ");
      const box = [side === "left" ? x : x - w, level === "top" ? y : level === "bottom" ? y - LABEL_HIGH : y - LABEL_HIGH / 2,
        w, LABEL_HIGH];
      if (!this.isFree(box))
        continue;
      this.boxes.push(box);
      this.texts.push([text, x, y, color, font, align, back]);
      return;
    }
  }

  draw(context) {
    this.texts.forEach(([text, x, y, color, font, align, back], i) => {
      const [left, top, w, h] = this.boxes[i];
      if (back) {
        context.fillStyle = back;
        context.fillRect(left - 3, top - 1, w + 6, h + 2);
      }
      write(context, text, x, y, color, font, align);
    });
  }

  isFree([left, top, w, h]) {
    const { plot } = this;
    return left >= plot.x && left + w <= plot.x + plot.w && top >= plot.y && top + h <= plot.y + plot.h &&
      this.boxes.every(([x, y, width, high]) => left >= x + width + LABEL_GAP || left + w + LABEL_GAP <= x ||
        top >= y + high || top + h <= y);
  }
}
