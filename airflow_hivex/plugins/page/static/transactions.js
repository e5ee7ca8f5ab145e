/* Transactions and locks: who holds what, who waits for whom, and what old readers keep. */
import { get } from "./api.js";
import { Action, Graph, Grid, List, Owner, Picker, Section, Shown, Since, count, h, useData } from "./parts.js";

const R = globalThis.React;

export function Transactions({ tick, refresh, mayEdit }) {
  const [state, setState] = R.useState("open");
  const [lockState, setLockState] = R.useState("all");
  const [txn, setTxn] = R.useState(null);
  const waits = useData(() => get("waits"), [tick]);
  const name = (txnId, lockId) => (txnId ? `transaction ${txnId}` : `lock ${lockId}`);
  return h(
    R.Fragment,
    null,
    h(
      Section,
      { title: "Who waits for whom" },
      h(Shown, { of: waits }, ({ rows }) => {
        if (!rows.length) return h("p", { className: "hivex-soft" }, "No request for locks waits.");
        const edges = rows.map((row) => ({
          from: name(row.txn_id, row.lock_id),
          to: name(row.for_txn_id, row.for_lock_id),
          label: row.resource,
        }));
        return h(
          R.Fragment,
          null,
          h(Graph, { title: "Who waits for whom", edges }),
          h(Grid, {
            caption: "Waiting requests",
            rows,
            rowKey: (row) => `${row.lock_id} ${row.resource}`,
            columns: [
              ["Waits", (row) => h(R.Fragment, null, name(row.txn_id, row.lock_id), h("small", null, row.user))],
              ["For", (row) => h(R.Fragment, null, name(row.for_txn_id, row.for_lock_id), h("small", null, row.for_user))],
              ["Locked", (row) => row.resource],
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
              h(R.Fragment, null, row.state, row.reason ? h("small", null, row.reason) : null, h("small", null, row.type)),
            "state",
          ],
          ["Owner", (row) => h(Owner, { user: row.user, host: row.host, agent: row.agent_info, task: row.task }), "user"],
          ["Begun", (row) => h(Since, { time: row.started_at }), "started"],
          ["Heartbeat", (row) => h(Since, { time: row.heartbeat_at }), "heartbeat"],
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
          ["Locked", (row) => row.resource, "resource"],
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
                    question: `Release request ${row.lock_id} on ${row.resource}? Its owner goes on without the locks, or ends with an error.`,
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
    h(Section, { title: "What old readers keep" }, h(Cleaning)),
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
