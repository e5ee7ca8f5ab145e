/* History: what has run, what failed, what waited longest, which tables grew. */
import { get } from "./api.js";
import { Field, Grid, Link, List, Name, Owner, Picker, Section, Shown, Since, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;
const PERIODS = [
  ["1", "last hour"],
  ["12", "last 12 hours"],
  ["24", "last 24 hours"],
  ["0", "all that is kept"],
];
const STATUSES = ["all", "unsuccessful", "succeeded", "open", "rolled back", "failed", "refused", "cancelled", "lost"];
const BROKEN = ["failed", "refused", "lost"];
/* The questions of the page: each is a button, and decides about the filter and the order. */
const VIEWS = {
  all: { title: "What has run", status: "all", first: { by: "id", descending: true } },
  failed: { title: "What failed", status: "unsuccessful", first: { by: "id", descending: true } },
  waited: { title: "What waited longest", status: "all", first: { by: "wait_s", descending: true } },
  slowest: { title: "What was slowest", status: "all", first: { by: "seconds", descending: true } },
  grown: { title: "Which tables grew" },
};

export function History({ tick, place, go }) {
  const view = place.view in VIEWS ? place.view : "all";
  const hours = PERIODS.some(([key]) => key === place.hours) ? place.hours : place.agent ? "0" : "24";
  const to = (next) => go({ ...place, tab: "history", connection: place.connection, hours, ...next });
  const summary = useData(() => get("statements/summary", { hours }), [hours, tick]);
  return h(Shown, { of: summary }, (data) => {
    if (!data.retention_s) {
      return h("p", null, "The history of statements is off: hivex.statements.retention is 0 in the process that shows this page.");
    }
    return h(
      R.Fragment,
      null,
      h(
        Section,
        { title: VIEWS[view].title },
        place.agent
          ? h(
              "p",
              null,
              `Only statements of the task ${place.agent}. `,
              h(Link, { onClick: () => to({ agent: null }) }, "Show all statements"),
            )
          : null,
        h(
          "div",
          { className: "hivex-filters", role: "group", "aria-label": "Questions" },
          Object.entries(VIEWS).map(([key, { title }]) =>
            h(
              "button",
              {
                key,
                type: "button",
                "aria-pressed": key === view,
                className: key === view ? "hivex-primary" : undefined,
                onClick: () => to({ view: key }),
              },
              key === "failed" && data.unsuccessful ? `${title} (${count(data.unsuccessful)})` : title,
            ),
          ),
          h(Picker, { label: "Period", value: hours, options: PERIODS, onChange: (value) => to({ hours: value }) }),
        ),
        view === "grown"
          ? h(Grown, { hours, tick, to, go })
          : h(Statements, { key: `${view} ${place.agent || ""}`, view: VIEWS[view], hours, tick, place, dags: data.dags, to, go }),
      ),
    );
  });
}

function Statements({ view, hours, tick, place, dags, to, go }) {
  const [status, setStatus] = R.useState(view.status);
  const [table, setTable] = R.useState(place.table || "");
  const dag = place.dag || "";
  const known = dag && !dags.includes(dag) ? [...dags, dag] : dags;
  return h(List, {
    path: "statements",
    parameters: { hours, status, dag_id: dag, table, agent: place.agent || "" },
    tick,
    caption: "Statements",
    empty: "No such statement has ended in this period.",
    first: view.first,
    rowKey: (row) => row.id,
    filters: h(
      R.Fragment,
      null,
      h(Picker, {
        label: "DAG",
        value: dag,
        options: [["", "all"], ...known.map((each) => [each, each])],
        onChange: (value) => to({ dag: value }),
      }),
      h(Field, { label: "Table", value: table, onChange: setTable, type: "search", maxLength: 200 }),
      h(Picker, {
        label: "Outcome",
        value: status,
        options: STATUSES.map((each) => [each, each]),
        onChange: setStatus,
      }),
    ),
    columns: [
      ["Ended", (row) => h(R.Fragment, null, h(Since, { time: row.ended_at }), h("small", null, clock(row.ended_at))), "id"],
      ["Outcome", (row) => h(Outcome, { row }), "status"],
      ["Statement", (row) => h(Text, { row }), "kind"],
      [
        "Tables",
        (row) =>
          row.tables.length
            ? row.tables.map((each) =>
                h("div", { key: each }, h(Link, { onClick: () => go({ tab: "tables", table: each }) }, h(Name, { of: each }))),
              )
            : "—",
      ],
      ["By", (row) => h(Owner, { user: row.user, host: row.host, agent: row.agent_info, task: row.task }), "dag_id"],
      ["Seconds", (row) => seconds(row.seconds), "seconds"],
      ["Waited", (row) => (row.wait_s ? seconds(row.wait_s) : "—"), "wait_s"],
      ["Rows", (row) => h(Rows, { row }), "rows_written"],
      ["Cluster", (row) => row.cluster || "—", "cluster"],
    ],
  });
}

/* The time of day of the browser's time zone, and the day unless it is today. */
function clock(time) {
  const at = new Date(time);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toLocaleTimeString() : at.toLocaleString();
}

function seconds(number) {
  return `${number < 10 ? number.toFixed(2) : count(Math.round(number))} s`;
}

function Outcome({ row }) {
  const kind = BROKEN.includes(row.outcome) ? "broken" : row.outcome === "succeeded" ? "good" : "warning";
  return h(
    R.Fragment,
    null,
    h("span", { className: `hivex-tag hivex-${kind}` }, row.outcome),
    row.error_code ? h("small", null, row.error_code) : null,
  );
}

function Rows({ row }) {
  if (row.rows_written === null) return "—";
  return h(
    R.Fragment,
    null,
    h(Name, { of: `${count(row.rows_written)} written` }),
    row.rows_deleted ? h("small", null, `${count(row.rows_deleted)} deleted`) : null,
  );
}

/* The kind of a statement; its text, error, route and steps are there when it is opened. */
function Text({ row }) {
  const line = row.text.replace(/\s+/g, " ").trim();
  const steps = Object.entries(row.steps).map(([step, value]) => `${step} ${value.toFixed(3)} s`);
  return h(
    "details",
    { className: "hivex-details" },
    h("summary", null, row.kind || "not read", h("small", null, line.length > 90 ? `${line.slice(0, 89)}…` : line)),
    h("pre", { tabIndex: 0 }, row.text),
    row.error ? h("p", { className: "hivex-note hivex-broken" }, row.error) : null,
    row.route ? h("p", null, row.route) : null,
    row.txn_id ? h("p", null, `Transaction ${row.txn_id}, on ${row.host}`) : h("p", null, `On ${row.host}`),
    steps.length ? h("p", null, `Steps: ${steps.join(", ")}`) : null,
  );
}

function Grown({ hours, tick, to, go }) {
  const found = useData(() => get("statements/grown", { hours }), [hours, tick]);
  return h(Shown, { of: found }, ({ rows }) =>
    h(Grid, {
      caption: "Tables that grew",
      empty: "No rows of a table have changed in this period.",
      rows,
      rowKey: (row) => row.table,
      columns: [
        ["Table", (row) => h(Link, { onClick: () => go({ tab: "tables", table: row.table }) }, h(Name, { of: row.table }))],
        ["More rows", (row) => count(row.rows_added - row.rows_deleted)],
        ["Added", (row) => count(row.rows_added)],
        ["Deleted", (row) => count(row.rows_deleted)],
        ["Written", (row) => bytes(row.size_bytes)],
        ["Statements", (row) => count(row.statements)],
        ["", (row) => h(Link, { onClick: () => to({ view: "all", table: row.table }) }, "Its statements")],
      ],
    }),
  );
}
