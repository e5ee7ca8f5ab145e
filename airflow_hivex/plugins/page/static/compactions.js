/* Compactions: the queue and its history, a request, and why something is not compacted. */
import { get } from "./api.js";
import { Action, Bars, Failure, Field, Grid, List, Picker, Section, Shown, Since, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;
const FILTERS = [
  ["all", "all", []],
  ["queue", "in the queue", ["initiated", "working", "ready for cleaning"]],
  ["initiated", "initiated", ["initiated"]],
  ["working", "working", ["working"]],
  ["ready", "ready for cleaning", ["ready for cleaning"]],
  ["succeeded", "succeeded", ["succeeded"]],
  ["failed", "failed", ["failed"]],
  ["refused", "refused, aborted, not begun", ["refused", "aborted", "did not initiate"]],
];

export function Compactions({ tick, refresh, mayEdit, place }) {
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
            (row) => h(R.Fragment, null, name(row), row.partition ? h("small", null, row.partition) : null),
            "table",
          ],
          ["Type", (row) => row.type, "type"],
          [
            "State",
            (row) => h(R.Fragment, null, row.state, row.error_message ? h("small", null, row.error_message) : null),
          ],
          ["Enqueued", (row) => h(Since, { time: row.enqueued_at }), "enqueued"],
          ["Begun", (row) => h(Since, { time: row.started_at }), "started"],
          ["Duration", duration, "duration"],
          ["Worker", (row) => row.worker_id || "—", "worker"],
          [
            "",
            (row) =>
              mayEdit && row.state === "initiated"
                ? h(Action, {
                    title: "Withdraw",
                    question: `Take compaction ${row.id} of ${name(row)} out of the queue?`,
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
            title: "Delta directories",
            items: deltas.map((each) => ({ label: name(each), value: each.deltas, text: count(each.deltas) })),
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
  if (!row.started_at || !row.ended_at) return "—";
  const seconds = (Date.parse(row.ended_at) - Date.parse(row.started_at)) / 1000;
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
              question: `Put a ${type} compaction of ${table}${partition ? ` ${partition}` : ""} into the queue?`,
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
