/* The tab "Warehouse" of a task instance: the route, transactions, locks, rows and directories of its statements. */
import { get, post, setConnection } from "./api.js";
import { Failure, Grid, Loading, Name, Section, Shown, Since, bytes, count, ensureStyle, h, useData } from "./parts.js";
import { Route } from "./routing.js";

const R = globalThis.React;
const REFRESH_S = 15;

function TaskTab({ dagId, runId, taskId, mapIndex }) {
  const index = Number(mapIndex ?? -1);
  const task = { dag_id: dagId, run_id: runId, task_id: taskId, map_index: Number.isNaN(index) ? -1 : index };
  const key = JSON.stringify(task);
  const [tick, setTick] = R.useState(0);
  const fields = useData(() => get("task/fields", task), [key, tick]);
  R.useEffect(() => {
    const timer = setInterval(() => document.hidden || setTick((old) => old + 1), REFRESH_S * 1000);
    return () => clearInterval(timer);
  }, []);
  R.useEffect(ensureStyle, []);
  if (fields.error) return h("div", { className: "hivex" }, h(Failure, { error: fields.error }));
  if (!fields.data) return h("div", { className: "hivex" }, h(Loading));
  if (!fields.data.hivex_conn_id) {
    const reason = "Airflow has no fields of this task instance with a connection of the type hivex: it uses no warehouse of Hivex, or has not begun.";
    return h("div", { className: "hivex" }, h("p", null, reason));
  }
  setConnection(fields.data.hivex_conn_id);
  return h(
    "div",
    { className: "hivex" },
    h(Work, { key, task, tick }),
    fields.data.statements.map((statement, number) =>
      h(Routes, { key: `${key} ${number}`, statement, number, fields: fields.data }),
    ),
  );
}

function Work({ task, tick }) {
  const found = useData(() => get("task", task), [tick]);
  return h(Shown, { of: found }, (data) =>
    h(
      R.Fragment,
      null,
      h(
        Section,
        { title: "Transactions" },
        h(Grid, {
          caption: "Transactions of all tries",
          empty: "The warehouse knows no transaction of this task instance. Transactions that have ended are forgotten in time.",
          rows: data.transactions,
          rowKey: (row) => row.id,
          columns: [
            ["Transaction", (row) => row.id],
            ["State", (row) => h(R.Fragment, null, row.state, row.reason ? h("small", null, row.reason) : null)],
            ["Owner", (row) => h(R.Fragment, null, row.user, h("small", null, row.agent_info))],
            ["Started", (row) => h(Since, { time: row.started_at })],
            ["Rows written", (row) => rowsOf(data.directories, row.id)],
            ["Locks", (row) => (row.acquired || row.waiting ? `${count(row.acquired)} held, ${count(row.waiting)} waiting` : "none")],
          ],
        }),
      ),
      data.locks.length
        ? h(
            Section,
            { title: "Locks" },
            h(Grid, {
              caption: "Locks of the task",
              rows: data.locks,
              rowKey: (row) => `${row.lock_id}.${row.internal_id}`,
              columns: [
                ["Table or partition", (row) => h(Name, { of: row.name })],
                ["Type", (row) => row.type],
                ["State", (row) => (row.blocked_by ? `${row.state}, behind lock ${row.blocked_by.join(".")}` : row.state)],
                ["Transaction", (row) => row.txn_id],
                ["Since", (row) => h(Since, { time: row.acquired_at || row.requested_at })],
              ],
            }),
          )
        : null,
      h(
        Section,
        { title: "Directories" },
        h(Grid, {
          caption: "Directories that the task has written",
          empty: "The transactions have written none that is registered now.",
          rows: data.directories,
          rowKey: (row) => `${row.table} ${row.partition} ${row.name}`,
          columns: [
            ["Table", (row) => h(R.Fragment, null, row.table, row.partition ? h("small", null, row.partition) : null)],
            ["Directory", (row) => row.name],
            ["Kind", (row) => row.kind],
            ["Rows", (row) => count(row.rows)],
            ["Size", (row) => bytes(row.size_bytes)],
            ["Transaction", (row) => row.txn_id],
          ],
        }),
      ),
    ),
  );
}

function rowsOf(directories, txnId) {
  const own = directories.filter((each) => each.txn_id === txnId && each.kind !== "delete_delta");
  return own.length ? count(own.reduce((sum, each) => sum + each.rows, 0)) : "none";
}

function Routes({ statement, number, fields }) {
  const [state, setState] = R.useState({});
  const ask = () => {
    setState({ busy: true });
    const question = { statement, database: fields.database || "default", cluster: fields.cluster };
    post("route", question).then(
      (data) => setState({ data }),
      (error) => setState({ error }),
    );
  };
  return h(
    Section,
    { title: fields.statements.length > 1 ? `Statement ${number + 1}` : "Statement" },
    h("pre", { tabIndex: 0 }, statement),
    h("button", { type: "button", disabled: Boolean(state.busy), onClick: ask }, "Find the current route"),
    state.error ? h(Failure, { error: state.error }) : null,
    state.data ? h(Route, { route: state.data }) : null,
  );
}

// By the name of the plugin: several plugins share globalThis.AirflowPlugin.
globalThis.Warehouse = TaskTab;
