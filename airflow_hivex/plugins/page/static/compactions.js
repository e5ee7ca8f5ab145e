/* Compactions: the queue and its history, a request, and why something is not compacted. */
import { get } from "./api.js";
import { Action, Bars, Compact, Failure, Field, Grid, List, Name, Picker, Section, Shown, Since, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;
const FILTERS = [
  ["all", "all", []],
  ["queue", "waiting or running", ["initiated", "working"]],
  ["initiated", "waiting", ["initiated"]],
  ["working", "running", ["working"]],
  ["ready", "merged, old files kept", ["ready for cleaning"]],
  ["succeeded", "finished", ["succeeded"]],
  ["failed", "failed", ["failed"]],
  ["refused", "refused, withdrawn, not started", ["refused", "aborted", "did not initiate"]],
];
// The states as SHOW COMPACTIONS has them, and the words of the page.
const WORDS = {
  initiated: "waiting",
  working: "running",
  "ready for cleaning": "merged",
  succeeded: "finished",
  aborted: "withdrawn",
  "did not initiate": "not started",
};

function State({ row }) {
  const word = h("span", { title: `SHOW COMPACTIONS: ${row.state}` }, WORDS[row.state] || row.state);
  const kept = row.state === "ready for cleaning" ? keptFiles(row) : null;
  return h(R.Fragment, null, word, kept, row.error_message ? h("small", null, row.error_message) : null);
}

function keptFiles(row) {
  if (!row.kept_until) return h("small", null, "old files kept for readers");
  const isOver = Date.parse(row.kept_until) <= Date.now();
  const time = h("time", { dateTime: row.kept_until }, moment(row.kept_until));
  return h("small", null, isOver ? "old files are deleted by the next cleaning" : h(R.Fragment, null, "old files kept until ", time));
}

/* A day and a minute, in the time zone of the browser. */
function moment(time) {
  return new Date(time).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/* A table with partitions is compacted partition by partition, on its own page. */
function CompactTable({ each, refresh, go }) {
  if (each.is_partitioned) {
    return h("button", { type: "button", onClick: () => go({ tab: "tables", table: `${each.database}.${each.table}` }) }, "Partitions");
  }
  return h(Compact, { database: each.database, table: each.table, partition: null, done: refresh });
}

export function Compactions({ tick, refresh, mayEdit, place, go }) {
  const [filter, setFilter] = R.useState("all");
  const charts = useData(() => get("compactions/charts"), [tick]);
  const states = FILTERS.find(([key]) => key === filter)[2];
  const name = (row) => `${row.database}.${row.table}`;
  return h(
    R.Fragment,
    null,
    h(
      Section,
      { title: "Queue and history" },
      h(List, {
        path: "compactions",
        parameters: { state: states },
        tick,
        caption: "Compactions",
        empty: "There are no such compactions.",
        first: { by: "id", descending: true },
        rowKey: (row) => row.id,
        filters: h(Picker, {
          label: "State",
          value: filter,
          options: FILTERS.map(([key, title]) => [key, title]),
          onChange: setFilter,
        }),
        columns: [
          ["Compaction", (row) => row.id, "id"],
          [
            "Table",
            (row) => h(R.Fragment, null, h(Name, { of: name(row) }), row.partition ? h("small", null, row.partition) : null),
            "table",
          ],
          ["Type", (row) => h("span", { className: "hivex-word" }, row.type), "type"],
          [
            "State",
            (row) => h(State, { row }),
          ],
          ["Requested", (row) => h(Since, { time: row.enqueued_at }), "enqueued"],
          ["Started", (row) => h(Since, { time: row.started_at }), "started"],
          ["Merged in", duration, "duration"],
          ["Worker", (row) => (row.worker_id ? h("small", null, row.worker_id) : "—"), "worker"],
          [
            "",
            (row) =>
              mayEdit && row.state === "initiated"
                ? h(Action, {
                    title: "Withdraw",
                    question: `Withdraw compaction ${row.id} of ${name(row)}, which no worker has started?`,
                    path: "compactions/withdraw",
                    body: { id: row.id },
                    done: refresh,
                  })
                : null,
          ],
        ],
      }),
    ),
    h(
      Section,
      { title: "Tables with the most deltas" },
      h(Shown, { of: charts }, ({ deltas }) =>
        h(
          "div",
          { className: "hivex-side" },
          h(Bars, {
            title: "Delta directories that readers must merge",
            items: deltas.map((each) => ({
              label: name(each),
              value: each.deltas,
              text: count(each.deltas),
              action: mayEdit ? h(CompactTable, { each, refresh, go }) : null,
            })),
          }),
          h(Bars, {
            title: "Bytes of deltas, and of the table",
            items: deltas.map((each) => ({
              label: name(each),
              value: each.delta_bytes,
              text: `${bytes(each.delta_bytes)} of ${bytes(each.size_bytes)}`,
            })),
          }),
        ),
      ),
    ),
    h(Section, { title: "Why is this not compacted?" }, h(Question, { refresh, mayEdit, place })),
  );
}

function duration(row) {
  const seconds = row.duration_s;
  if (seconds === null || seconds === undefined) return "—";
  return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
}

function Question({ refresh, mayEdit, place }) {
  const [table, setTable] = R.useState(place.table || "");
  const [partition, setPartition] = R.useState(place.partition || "");
  const [type, setType] = R.useState("major");
  const [state, setState] = R.useState({});
  const named = () => {
    const dot = table.indexOf(".");
    const [database, name] = dot < 0 ? ["default", table] : [table.slice(0, dot), table.slice(dot + 1)];
    return { database: database.trim(), table: name.trim(), partition: partition.trim() || null };
  };
  const ask = (event) => {
    event.preventDefault();
    get("compactions/explain", named()).then(
      (data) => setState({ data }),
      (error) => setState({ error }),
    );
  };
  return h(
    R.Fragment,
    null,
    h(
      "form",
      { className: "hivex-filters", onSubmit: ask },
      h(Field, { label: "Table", value: table, onChange: setTable, placeholder: "database.table", required: true }),
      h(Field, { label: "Partition", value: partition, onChange: setPartition, placeholder: "ds=2026-01-01" }),
      h("button", { type: "submit" }, "Explain"),
      mayEdit && table
        ? h(
            R.Fragment,
            null,
            h(Picker, {
              label: "Type",
              value: type,
              options: ["major", "minor", "rebalance"].map((each) => [each, each]),
              onChange: setType,
            }),
            h(Action, {
              title: "Request",
              kind: "primary",
              question: `Request a ${type} compaction of ${table}${partition ? ` ${partition}` : ""}?`,
              path: "compactions/request",
              body: { ...named(), type },
              done: refresh,
            }),
          )
        : null,
    ),
    state.error ? h(Failure, { error: state.error }) : null,
    state.data ? h(Answer, { found: state.data }) : null,
  );
}

function Answer({ found }) {
  return h(
    "div",
    { role: "status" },
    h("p", null, h("strong", null, found.name), `: ${found.answer}`),
    found.partitions.length
      ? h(Grid, {
          caption: "Partitions by answer",
          rows: found.partitions,
          rowKey: ([answer]) => answer,
          columns: [
            ["Answer", ([answer]) => answer],
            ["Partitions", ([, number]) => count(number)],
          ],
        })
      : null,
    h(Grid, {
      caption: "Filters and thresholds",
      rows: found.checks,
      rowKey: (row) => row.name,
      columns: [
        ["Check", (row) => row.name],
        ["Value", (row) => row.value],
        ["Threshold", (row) => row.threshold],
        ["Result", (row) => row.result],
      ],
    }),
  );
}
