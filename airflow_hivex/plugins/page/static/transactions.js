/* Transactions and locks: who holds what, who waits for whom, and what old readers keep. */
import { get } from "./api.js";
import { Action, Graph, Grid, Link, List, Name, Owner, Picker, Section, Shown, Since, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;

/* The transactions of one task, to which its link leads: in any state, also when their records were deleted. */
function OfTask({ place, tick, go }) {
  const ids = (place.txns || "").split(",").filter((each) => /^[0-9]+$/.test(each));
  const found = useData(() => get("transactions/of", { agent: place.agent, txn_id: ids }), [place.agent, place.txns, tick]);
  const title = place.agent ? "Transactions of the task" : "Transaction";
  return h(
    Section,
    { title, actions: h("button", { type: "button", onClick: () => go({ tab: "transactions" }) }, "Show all transactions") },
    place.agent ? h("p", { className: "hivex-soft" }, `DAG and task, run and try: ${place.agent}`) : null,
    h(Shown, { of: found }, ({ rows, ended, directories }) =>
      h(
        R.Fragment,
        null,
        h(Grid, {
          caption: "Transactions of the task",
          empty: ended.length
            ? `Transaction ${ended.join(", ")} has ended. Its record was deleted since.`
            : "There is no transaction of this task. The record of a transaction is deleted some time after its end.",
          rows,
          rowKey: (row) => row.id,
          columns: [
            ["Transaction", (row) => row.id],
            ["State", (row) => h(R.Fragment, null, row.state, row.reason ? h("small", null, row.reason) : null)],
            ["Owner", (row) => h(Owner, { user: row.user, host: row.host, agent: row.agent_info, task: row.task })],
            ["Started", (row) => h(Since, { time: row.started_at })],
            ["Locks", (row) => (row.acquired || row.waiting ? `${count(row.acquired)} held, ${count(row.waiting)} waiting` : "none")],
          ],
        }),
        directories.length
          ? h(Grid, {
              caption: "Directories that they have written",
              rows: directories,
              rowKey: (row) => `${row.table} ${row.partition} ${row.name}`,
              columns: [
                [
                  "Written",
                  (row) =>
                    h(
                      R.Fragment,
                      null,
                      h(Link, { onClick: () => go({ tab: "tables", table: row.table }) }, row.table),
                      row.partition ? h("small", null, row.partition) : null,
                    ),
                ],
                ["Directory", (row) => row.name],
                ["Rows", (row) => count(row.rows)],
                ["Size", (row) => bytes(row.size_bytes)],
                ["Transaction", (row) => row.txn_id],
              ],
            })
          : null,
      ),
    ),
  );
}

export function Transactions({ tick, refresh, mayEdit, place, go }) {
  const [state, setState] = R.useState("open");
  const [lockState, setLockState] = R.useState("all");
  const [txn, setTxn] = R.useState(null);
  const waits = useData(() => get("waits"), [tick]);
  const name = (txnId, lockId) => (txnId ? `transaction ${txnId}` : `lock ${lockId}`);
  return h(
    R.Fragment,
    null,
    place.agent || place.txns ? h(OfTask, { place, tick, go }) : null,
    h(
      Section,
      { title: "Who waits for whom" },
      h(Shown, { of: waits }, ({ rows }) => {
        if (!rows.length) return h("p", { className: "hivex-soft" }, "No request for locks waits.");
        const edges = rows.map((row) => ({
          from: name(row.txn_id, row.lock_id),
          to: name(row.for_txn_id, row.for_lock_id),
          label: row.name,
        }));
        const notes = {};
        for (const row of rows) {
          notes[name(row.txn_id, row.lock_id)] = row.by;
          notes[name(row.for_txn_id, row.for_lock_id)] = row.for_by;
        }
        return h(
          R.Fragment,
          null,
          h(Graph, { title: "Who waits for whom", edges, notes }),
          h(Grid, {
            caption: "Waiting requests",
            rows,
            rowKey: (row) => `${row.lock_id} ${row.resource}`,
            columns: [
              ["Waits", (row) => h("div", null, h("div", null, name(row.txn_id, row.lock_id)), h(Owner, { user: row.user, agent: row.agent_info, task: row.task }))],
              ["For", (row) => h("div", null, h("div", null, name(row.for_txn_id, row.for_lock_id)), h(Owner, { user: row.for_user, agent: row.for_agent_info, task: row.for_task }))],
              ["Table or partition", (row) => h(Name, { of: row.name })],
              ["Since", (row) => h(Since, { time: row.since })],
            ],
          }),
        );
      }),
    ),
    h(
      Section,
      { title: "Transactions" },
      h(List, {
        path: "transactions",
        parameters: { state },
        tick,
        caption: "Transactions",
        empty: "There are no such transactions.",
        first: { by: "started", descending: false },
        rowKey: (row) => row.id,
        filters: h(Picker, {
          label: "State",
          value: state,
          options: ["open", "aborted", "committed", "all"].map((each) => [each, each]),
          onChange: setState,
        }),
        columns: [
          ["Transaction", (row) => row.id, "id"],
          [
            "State",
            (row) =>
              h(
                R.Fragment,
                null,
                row.state,
                row.reason ? h("small", null, row.reason) : null,
                row.type === "default" ? null : h("small", null, row.type),
              ),
            "state",
          ],
          ["Owner", (row) => h(Owner, { user: row.user, host: row.host, agent: row.agent_info, task: row.task }), "user"],
          ["Started", (row) => h(Since, { time: row.started_at }), "started"],
          ["Last heartbeat", (row) => h(Since, { time: row.heartbeat_at }), "heartbeat"],
          [
            "Locks",
            (row) => {
              const waiting = row.waiting ? `, ${count(row.waiting)} waiting` : "";
              return row.acquired || row.waiting
                ? h("button", { type: "button", onClick: () => setTxn(row.id) }, `${count(row.acquired)} held${waiting}`)
                : "none";
            },
          ],
          [
            "",
            (row) =>
              mayEdit && row.state === "open"
                ? h(Action, {
                    title: "Abort",
                    question:
                      `Abort transaction ${row.id} of ${row.user}? Nothing that it has written becomes visible, and ` +
                      "its statements end with an error.",
                    path: "transactions/abort",
                    body: { txn_id: row.id },
                    field: { name: "reason", label: "Reason (for the owner and the audit log)" },
                    done: refresh,
                  })
                : null,
          ],
        ],
      }),
    ),
    h(
      Section,
      {
        title: txn ? `Locks of transaction ${txn}` : "Locks",
        actions: txn ? h("button", { type: "button", onClick: () => setTxn(null) }, "Show all locks") : null,
      },
      h(List, {
        path: "locks",
        parameters: { txn_id: txn, state: lockState },
        tick,
        caption: "Locks",
        empty: "There are no such locks.",
        first: { by: "requested", descending: false },
        rowKey: (row) => `${row.lock_id}.${row.internal_id}`,
        filters: h(Picker, {
          label: "State of locks",
          value: lockState,
          options: ["all", "acquired", "waiting"].map((each) => [each, each]),
          onChange: setLockState,
        }),
        columns: [
          ["Lock", (row) => `${row.lock_id}.${row.internal_id}`, "id"],
          ["Table or partition", (row) => h(Name, { of: row.name }), "resource"],
          ["Type", (row) => row.type],
          [
            "State",
            (row) =>
              h(
                R.Fragment,
                null,
                row.state,
                row.blocked_by ? h("small", null, `behind lock ${row.blocked_by.join(".")}`) : null,
              ),
            "state",
          ],
          ["Transaction", (row) => row.txn_id || "none", "transaction"],
          ["Owner", (row) => h(Owner, { user: row.user, host: row.host, agent: row.agent_info, task: row.task }), "user"],
          ["Since", (row) => h(Since, { time: row.acquired_at || row.requested_at }), "requested"],
          [
            "",
            (row) =>
              mayEdit && (row.state === "waiting" || !row.txn_id)
                ? h(Action, {
                    title: "Release",
                    question: `Release request ${row.lock_id} on ${row.name}? Its owner goes on without the locks, or ends with an error.`,
                    path: "locks/release",
                    body: { lock_id: row.lock_id },
                    done: refresh,
                  })
                : null,
          ],
        ],
      }),
      h(
        "p",
        { className: "hivex-soft" },
        "The locks of an open transaction are released when it ends: abort the transaction to release them.",
      ),
    ),
    h(Section, { title: "Old files that readers keep" }, h(Cleaning)),
  );
}

function Cleaning() {
  const [asked, setAsked] = R.useState(0);
  return h(
    R.Fragment,
    null,
    h(
      "p",
      null,
      "The cleaner deletes obsolete files when no open transaction may read them. This asks what it would do now. ",
      h("button", { type: "button", onClick: () => setAsked(asked + 1) }, "Ask the cleaner"),
    ),
    asked ? h(Plan, { asked }) : null,
  );
}

function Plan({ asked }) {
  const plan = useData(() => get("cleaning"), [asked]);
  return h(Shown, { of: plan }, ({ rows }) =>
    h(Grid, {
      caption: "Obsolete files that stay",
      empty: "No reader keeps the cleaner from deleting anything.",
      rows,
      rowKey: (row) => `${row.name} ${row.compaction_id}`,
      columns: [
        ["Table", (row) => row.name],
        ["Outcome", (row) => h(R.Fragment, null, row.outcome, row.message ? h("small", null, row.message) : null)],
        [
          "Kept directories",
          (row) => h(R.Fragment, null, count(row.kept_in_all), h("small", null, row.kept.join(", "))),
        ],
        [
          "Kept for",
          (row) =>
            row.blockers.map((each) =>
              h(
                "div",
                { key: each.txn_id },
                `transaction ${each.txn_id} of ${each.user}, `,
                h(Since, { time: each.started_at }),
                h("small", null, each.agent_info || each.host),
              ),
            ),
        ],
      ],
    }),
  );
}
