/* Overview: clusters, numbers, and what needs attention first. */
import { get } from "./api.js";
import { Attention, Figures, Grid, Link, Owner, Section, Shown, Since, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;
const ORDER = ["broken", "warning", "note"];

export function Overview({ tick, go }) {
  const overview = useData(() => get("overview"), [tick]);
  const clusters = useData(() => get("clusters"), [tick]);
  const storage = useData(() => get("storage"), [tick]);
  const namespaces = useData(() => get("namespaces"), []);
  return h(
    R.Fragment,
    null,
    h(Shown, { of: overview }, (data) => {
      const all = [data, clusters.data, namespaces.data].flatMap((each) => (each ? each.attention : []));
      all.sort((one, other) => ORDER.indexOf(one.urgency) - ORDER.indexOf(other.urgency));
      const compactions = (state) => data.queue[state] || 0;
      const merged = compactions("ready for cleaning");
      const notes = [`${count(compactions("working"))} running`];
      if (merged) notes.push(`${count(merged)} merged, old files kept for readers`);
      return h(
        R.Fragment,
        null,
        h(Section, { title: "What needs attention" }, h(Attention, { items: all, go })),
        h(
          Section,
          { title: "Now" },
          h(Figures, {
            items: [
              ["Open transactions", count(data.open), data.oldest ? h(R.Fragment, null, "the oldest ", h(Since, { time: data.oldest.started_at })) : null],
              [
                "Waiting lock requests",
                count(data.waiting),
                data.blocked
                  ? h(
                      R.Fragment,
                      null,
                      `${data.blocked.by} waits for `,
                      data.blocked.table
                        ? h(Link, { onClick: () => go({ tab: "tables", table: data.blocked.table }) }, data.blocked.name)
                        : data.blocked.name,
                      ", locked by ",
                      h(Link, { onClick: () => go({ tab: "transactions" }) }, data.blocked.holder),
                    )
                  : null,
                data.waiting ? "warning" : null,
              ],
              [
                "Waiting compactions",
                count(compactions("initiated")),
                notes.join("; "),
              ],
              ["Failed compactions in 24 hours", count(data.failed), null, data.failed ? "broken" : null],
            ],
          }),
          data.oldest
            ? h(
                "p",
                null,
                `The oldest open transaction is ${data.oldest.id}, of `,
                h(Owner, {
                  user: data.oldest.user,
                  host: data.oldest.host,
                  agent: data.oldest.agent_info,
                  task: data.oldest_task,
                }),
                " ",
                h(
                  "button",
                  { type: "button", onClick: () => go({ tab: "transactions" }) },
                  "Show the transactions",
                ),
              )
            : null,
        ),
      );
    }),
    h(
      Section,
      { title: "Clusters" },
      h(Shown, { of: clusters }, (data) => {
        const held = new Map((storage.data ? storage.data.rows : []).map((each) => [each.cluster, each]));
        return h(Grid, {
          caption: "Clusters",
          rows: data.rows,
          rowKey: (row) => row.cluster,
          columns: [
            ["Cluster", (row) => h(R.Fragment, null, row.cluster, row.is_default ? h("small", null, "default") : null)],
            [
              "Health",
              (row) =>
                row.problem
                  ? h("span", { className: "hivex-tag hivex-broken", title: row.problem }, "cannot be used")
                  : h("span", { className: "hivex-tag hivex-good" }, "usable"),
            ],
            ["Tables", (row) => (storage.data ? count(held.get(row.cluster)?.tables ?? 0) : "…")],
            [
              "Data",
              (row) => {
                const found = held.get(row.cluster);
                const old = found?.obsolete_bytes
                  ? h("small", null, `and ${bytes(found.obsolete_bytes)} of old files, to be deleted`)
                  : null;
                return storage.data ? h(R.Fragment, null, bytes(found?.size_bytes ?? 0), old) : "…";
              },
            ],
            ["Job tracker", (row) => row.jobtracker],
            ["File system", (row) => row.filesystem],
            ["Spark", (row) => row.spark_version || "—"],
          ],
        });
      }),
    ),
  );
}
