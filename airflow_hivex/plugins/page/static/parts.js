/* The parts that the tabs are made of. React escapes all texts: names with HTML in them are texts. */
import { get, post } from "./api.js";

const R = globalThis.React;
export const h = R.createElement;

/* The answer of a request, asked again when something it depends on changes. The last answer stays meanwhile. */
export function useData(ask, dependencies) {
  const [state, setState] = R.useState({ data: null, error: null });
  R.useEffect(() => {
    let current = true;
    ask().then(
      (data) => current && setState({ data, error: null }),
      (error) => current && setState((old) => ({ data: old.data, error })),
    );
    return () => {
      current = false;
    };
  }, dependencies);
  return state;
}

export function Loading() {
  return h("p", { role: "status", className: "hivex-soft" }, "Loading …");
}

const STATES = {
  STORE_MISSING: "There is no metastore yet",
  STORE_UNAVAILABLE: "The metastore does not answer",
  WAREHOUSE_BUSY: "The metastore does not answer",
  WAREHOUSE_SLOW: "The metastore does not answer",
  STORE_TOO_OLD: "The metastore has an older version",
  STORE_TOO_NEW: "The metastore has a newer version",
};

export function Failure({ error }) {
  const title = STATES[error.code];
  return h(
    "div",
    { role: "alert", className: "hivex-note hivex-broken" },
    title ? h("strong", null, title, ". ") : null,
    error.message,
  );
}

/* Show a part when its data is there; an error comes above the last data. */
export function Shown({ of, children }) {
  return h(
    R.Fragment,
    null,
    of.error ? h(Failure, { error: of.error }) : null,
    of.data ? children(of.data) : of.error ? null : h(Loading),
  );
}

export function Picker({ label, value, options, onChange }) {
  return h(
    "label",
    { className: "hivex-field" },
    h("span", null, label),
    h(
      "select",
      { value, onChange: (event) => onChange(event.target.value) },
      options.map(([key, title]) => h("option", { key, value: key }, title)),
    ),
  );
}

export function Field({ label, value, onChange, ...others }) {
  return h(
    "label",
    { className: "hivex-field" },
    h("span", null, label),
    h("input", { type: "text", value, onChange: (event) => onChange(event.target.value), ...others }),
  );
}

export function Section({ title, children, actions }) {
  const id = R.useId();
  return h(
    "section",
    { "aria-labelledby": id, className: "hivex-section" },
    h("div", { className: "hivex-section-head" }, h("h2", { id }, title), actions),
    children,
  );
}

export function Figures({ items }) {
  return h(
    "dl",
    { className: "hivex-figures" },
    items.map(([title, value, note, kind]) =>
      h(
        "div",
        { key: title, className: kind ? `hivex-figure hivex-${kind}` : "hivex-figure" },
        h("dt", null, title),
        h("dd", null, value),
        note ? h("dd", { className: "hivex-soft" }, note) : null,
      ),
    ),
  );
}

/* A name, which is broken only where it would take the room of other columns. */
export function Name({ of }) {
  return h("span", { className: of.length <= 32 ? "hivex-word" : undefined }, of);
}

/* A table of rows; a column is [title, row => content, name to sort by]. */
export function Grid({ caption, columns, rows, rowKey, sort, onSort, empty }) {
  if (!rows.length) return h("p", { className: "hivex-soft" }, empty || "Nothing.");
  return h(
    "div",
    { className: "hivex-scroll", tabIndex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      // The roles stay where a narrow window shows each row as a block.
      { role: "table" },
      h("caption", null, caption),
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          columns.map(([title, , order]) => {
            const isSorted = order && sort && sort.by === order;
            const direction = isSorted ? (sort.descending ? "descending" : "ascending") : undefined;
            return h(
              "th",
              { key: title, scope: "col", role: "columnheader", "aria-sort": direction },
              order
                ? h(
                    "button",
                    { type: "button", onClick: () => onSort(order) },
                    title,
                    h("span", { "aria-hidden": true }, isSorted ? (sort.descending ? " ↓" : " ↑") : ""),
                  )
                : title || h("span", { className: "hivex-hidden" }, "Actions"),
            );
          }),
        ),
      ),
      h(
        "tbody",
        { role: "rowgroup" },
        rows.map((row) =>
          h(
            "tr",
            { key: rowKey(row), role: "row" },
            columns.map(([title, cell], number) => h("td", { key: title || number, role: "cell", "data-title": title }, cell(row))),
          ),
        ),
      ),
    ),
  );
}

/* A list that the server sorts, searches and pages. */
export function List({ path, parameters = {}, tick, caption, columns, rowKey, first, filters, empty, limit = 25 }) {
  const [search, setSearch] = R.useState("");
  const [wanted, setWanted] = R.useState("");
  const [sort, setSort] = R.useState(first);
  const [offset, setOffset] = R.useState(0);
  const fixed = JSON.stringify(parameters);
  R.useEffect(() => {
    const timer = setTimeout(() => setWanted(search), 300);
    return () => clearTimeout(timer);
  }, [search]);
  R.useEffect(() => setOffset(0), [wanted, fixed]);
  const found = useData(
    () =>
      get(path, { ...parameters, search: wanted, order_by: sort.by, descending: sort.descending, offset, limit }),
    [path, fixed, wanted, sort.by, sort.descending, offset, tick],
  );
  const onSort = (by) => {
    setSort({ by, descending: sort.by === by ? !sort.descending : false });
    setOffset(0);
  };
  return h(
    R.Fragment,
    null,
    h(
      "div",
      { className: "hivex-filters" },
      h(Field, { label: "Search", value: search, onChange: setSearch, type: "search", maxLength: 200 }),
      filters,
    ),
    h(Shown, { of: found }, (data) =>
      h(
        R.Fragment,
        null,
        h(Grid, { caption, columns, rows: data.rows, rowKey, sort, onSort, empty }),
        h(Pages, { offset, limit, total: data.total, shown: data.rows.length, onMove: setOffset }),
      ),
    ),
  );
}

function Pages({ offset, limit, total, shown, onMove }) {
  if (total <= limit && !offset) return null;
  return h(
    "nav",
    { className: "hivex-pages", "aria-label": "Pages of the list" },
    h(
      "button",
      { type: "button", disabled: offset === 0, onClick: () => onMove(Math.max(0, offset - limit)) },
      "Previous",
    ),
    h("span", { role: "status" }, shown ? `${count(offset + 1)} to ${count(offset + shown)} of ${count(total)}` : `none of ${count(total)}`),
    h(
      "button",
      { type: "button", disabled: offset + limit >= total, onClick: () => onMove(offset + limit) },
      "Next",
    ),
  );
}

/* A button for a change. It asks first, and shows the answer in words. */
export function Action({ title, question, path, body, done, kind = "danger", field }) {
  const dialog = R.useRef(null);
  const [state, setState] = R.useState({});
  const [text, setText] = R.useState("");
  const id = R.useId();
  const open = () => {
    setState({});
    dialog.current.showModal();
  };
  const close = () => {
    dialog.current.close();
    if (state.message) done();
  };
  const run = () => {
    setState({ busy: true });
    post(path, field ? { ...body, [field.name]: text } : body).then(
      (answer) => setState({ message: answer.message }),
      (error) => setState({ error }),
    );
  };
  return h(
    R.Fragment,
    null,
    h("button", { type: "button", onClick: open }, title),
    h(
      "dialog",
      { ref: dialog, "aria-labelledby": id, className: "hivex hivex-dialog", onCancel: () => state.message && done() },
      h("h2", { id }, title),
      state.message
        ? h("p", { role: "status" }, state.message)
        : h(
            R.Fragment,
            null,
            h("p", null, question),
            field ? h(Field, { label: field.label, value: text, onChange: setText, maxLength: 500 }) : null,
          ),
      state.error ? h(Failure, { error: state.error }) : null,
      h(
        "div",
        { className: "hivex-buttons" },
        h("button", { type: "button", onClick: close }, state.message ? "Close" : "Cancel"),
        state.message
          ? null
          : h("button", { type: "button", disabled: state.busy, className: `hivex-${kind}`, onClick: run }, title),
      ),
    ),
  );
}

/* A button that requests a major compaction of a table or partition. */
export function Compact({ database, table, partition, done }) {
  const name = `${database}.${table}${partition ? ` ${partition}` : ""}`;
  return h(Action, {
    title: "Compact",
    kind: "primary",
    question: `Request a major compaction of ${name}? A worker merges its files while readers and writers go on.`,
    path: "compactions/request",
    body: { database, table, partition, type: "major" },
    done,
  });
}

/* The owner of a transaction or lock: a link to the task instance where it is one. */
export function Owner({ user, host, agent, task }) {
  if (!task) return h(R.Fragment, null, user || "unknown", h("small", null, agent || host || ""));
  const part = encodeURIComponent;
  const mapped = task.map_index === null ? "" : `/mapped/${task.map_index}`;
  const run = `dags/${part(task.dag_id)}/runs/${part(task.run_id)}`;
  const to = (path) => new URL(path, document.baseURI).href;
  return h(
    R.Fragment,
    null,
    user,
    h(
      "small",
      null,
      h("a", { href: to(`${run}/tasks/${part(task.task_id)}${mapped}`) }, `${task.dag_id}.${task.task_id}`),
      task.map_index === null ? "" : ` [${task.map_index}]`,
      ", ",
      h("a", { href: to(run) }, task.run_id),
      `, try ${task.try_number}`,
    ),
  );
}

/* ``go`` leads to the tab that shows more. */
export function Attention({ items, go }) {
  if (!items.length) return h("p", { className: "hivex-note hivex-good" }, "Nothing needs attention.");
  return h(
    "ul",
    { className: "hivex-attention" },
    items.map((each) =>
      h(
        "li",
        { key: each.sentence, className: `hivex-note hivex-${each.urgency}` },
        h("span", { className: "hivex-hidden" }, `${each.urgency}: `),
        each.sentence,
        go && each.tab !== "overview"
          ? h(R.Fragment, null, " ", h(Link, { onClick: () => go({ tab: each.tab }) }, "Show"))
          : null,
        go && each.table
          ? h(R.Fragment, null, " ", h(Link, { onClick: () => go({ tab: "tables", table: each.table }) }, each.table))
          : null,
      ),
    ),
  );
}

/* A place in the page, which is a button, as nothing is loaded. */
export function Link({ onClick, children }) {
  return h("button", { type: "button", className: "hivex-link", onClick }, children);
}

/* Horizontal bars, with the numbers as text. */
export function Bars({ title, items }) {
  if (!items.length) return h("p", { className: "hivex-soft" }, "Nothing to draw.");
  const most = Math.max(...items.map((each) => each.value), 1);
  return h(
    "table",
    // The roles stay where a narrow window shows each row as a block.
    { className: "hivex-bars", role: "table" },
    h("caption", null, title),
    h(
      "tbody",
      { role: "rowgroup" },
      items.map((each) =>
        h(
          "tr",
          { key: each.label, role: "row" },
          h("th", { scope: "row", role: "rowheader" }, each.label),
          h(
            "td",
            { "aria-hidden": true, role: "cell" },
            h("div", { className: "hivex-bar", style: { width: `${(100 * each.value) / most}%` } }),
          ),
          h("td", { role: "cell" }, each.text),
          items.some((one) => one.action) ? h("td", { role: "cell" }, each.action) : null,
        ),
      ),
    ),
  );
}

/* A drawing of who points at whom, in columns by distance; a list of the same edges is the text of it. ``notes`` has a
   second line for some boxes. */
export function Graph({ title, edges, notes = {} }) {
  const levels = levelsOf(edges);
  const columns = [];
  for (const [node, level] of levels) (columns[level] ||= []).push(node);
  const at = new Map();
  columns.forEach((nodes, x) => nodes.forEach((node, y) => at.set(node, [x, y])));
  const width = 350;
  const height = 56;
  const box = 210;
  const rows = Math.max(...columns.map((nodes) => nodes.length));
  const point = (node, right) => {
    const [x, y] = at.get(node);
    return [x * width + (right ? box + 4 : 4), y * height + 30];
  };
  const id = R.useId();
  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  return h(
    "figure",
    { className: "hivex-graph" },
    h(
      "div",
      { className: "hivex-scroll", tabIndex: 0, role: "region", "aria-label": title },
      h(
        "svg",
        { width: columns.length * width, height: rows * height + 8, role: "img", "aria-labelledby": id },
        h("title", { id }, title),
        h(
          "defs",
          null,
          h(
            "marker",
            { id: `${id}-arrow`, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" },
            h("path", { d: "M 0 0 L 10 5 L 0 10 z", className: "hivex-arrow" }),
          ),
        ),
        edges.map((edge, number) => {
          const [x1, y1] = point(edge.from, true);
          const [x2, y2] = point(edge.to, false);
          const isBack = x2 < x1;
          const half = box / 2;
          const path = isBack
            ? `M ${x1 - half} ${y1 + 22} C ${x1 - half} ${y1 + 44}, ${x2 + half} ${y2 + 44}, ${x2 + half} ${y2 + 22}`
            : `M ${x1} ${y1} C ${x1 + 60} ${y1}, ${x2 - 60} ${y2}, ${x2} ${y2}`;
          return h(
            "g",
            { key: number },
            h(
              "path",
              { d: path, className: "hivex-edge", markerEnd: `url(#${id}-arrow)` },
              h("title", null, `${edge.from} → ${edge.to}: ${edge.label}`),
            ),
            isBack || x2 - x1 > width
              ? null
              : h(
                  "text",
                  { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 6, textAnchor: "middle", className: "hivex-small" },
                  short(edge.label, 22),
                ),
          );
        }),
        [...at.keys()].map((node) => {
          const [x, y] = point(node, false);
          return h(
            "g",
            { key: node },
            h("rect", { x, y: y - 22, width: box, height: 44, rx: 5, className: "hivex-node" }),
            h(
              "text",
              { x: x + 8, y: notes[node] ? y - 4 : y + 4, className: "hivex-text" },
              short(node, 28),
              h("title", null, notes[node] ? `${node}: ${notes[node]}` : node),
            ),
            notes[node] ? h("text", { x: x + 8, y: y + 13, className: "hivex-small" }, short(notes[node], 30)) : null,
          );
        }),
      ),
    ),
  );
}

function levelsOf(edges) {
  const levels = new Map();
  for (const edge of edges) {
    levels.set(edge.from, 0);
    levels.set(edge.to, 0);
  }
  // A circle ends after as many rounds as there are nodes could need columns for.
  for (let round = 0; round < Math.min(levels.size, 12); round += 1) {
    for (const edge of edges) {
      const next = levels.get(edge.from) + 1;
      if (levels.get(edge.to) < next && next <= Math.min(levels.size - 1, 12)) levels.set(edge.to, next);
    }
  }
  const used = [...new Set(levels.values())].sort((one, other) => one - other);
  return new Map([...levels].map(([node, level]) => [node, used.indexOf(level)]));
}

export function count(number) {
  return Number(number).toLocaleString("en-US");
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = Number(number);
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/* A time with the time since then; the whole time is its title. */
export function Since({ time }) {
  if (!time) return "—";
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  const steps = [
    [86400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ];
  const step = steps.find(([length]) => seconds >= length);
  const text = step
    ? `${Math.floor(seconds / step[0])} ${step[1]} ${Math.floor((seconds % step[0]) / step[2])} ${step[3]}`
    : `${seconds} s`;
  return h("time", { dateTime: time, title: time }, `${text} ago`);
}

export function ensureStyle() {
  if (document.getElementById("hivex-style")) return;
  const link = document.createElement("link");
  link.id = "hivex-style";
  link.rel = "stylesheet";
  link.href = new URL("./hivex.css", import.meta.url).href;
  document.head.append(link);
}
