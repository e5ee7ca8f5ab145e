/* Columns over time, with the numbers as text. */
import { Grid, count, h } from "./parts.js";

const R = globalThis.React;
const WIDTH = 720;
const HEIGHT = 120;

/* A column for each period; a table of those with a value is the text of the drawing. */
export function Columns({ title, periods, value, columns, rowKey }) {
  const id = R.useId();
  const most = Math.max(...periods.map(value));
  const sum = periods.reduce((before, each) => before + value(each), 0);
  const step = WIDTH / periods.length;
  const filled = periods.filter((each) => value(each) || each.row);
  const ends = [periods[0], periods[periods.length - 1]].map((each) => each.label);
  const text = most ? `${count(sum)} in all, at most ${count(most)}` : "none";
  return h(
    "figure",
    { className: "hivex-columns" },
    h(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-labelledby": id },
      h("title", { id }, `${title}: ${text}, from ${ends[0]} to ${ends[1]}`),
      periods.map((each, number) => {
        const height = value(each) ? Math.max(2, (HEIGHT * value(each)) / most) : 0;
        return h(
          "rect",
          { key: each.label, x: number * step + 1, y: HEIGHT - height, width: step - 2, height, className: "hivex-column" },
          h("title", null, `${each.label}: ${count(value(each))}`),
        );
      }),
    ),
    h(
      "figcaption",
      { className: "hivex-soft" },
      h("span", null, ends[0]),
      h("span", null, text),
      h("span", null, ends[1]),
    ),
    h(
      "details",
      null,
      h("summary", null, "As a table"),
      h(Grid, { caption: title, rows: filled.reverse(), rowKey, columns }),
    ),
  );
}
