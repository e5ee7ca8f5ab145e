/* Tables: columns, partitions, copies, directories, commits and links. */
import { get } from "./api.js";
import { Columns } from "./chart.js";
import { Compact, Grid, List, Picker, Section, Shown, Since, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;

export function Tables({ tick, place, go, mayEdit, refresh }) {
  const at = place.table ? place.table.indexOf(".") : -1;
  if (at > 0) {
    const named = { database: place.table.slice(0, at), table: place.table.slice(at + 1) };
    return h(OneTable, { key: place.table, named, tick, place, go, mayEdit, refresh });
  }
  return h(
    Section,
    { title: "Tables and views" },
    h(List, {
      path: "tables",
      tick,
      caption: "Tables and views",
      empty: "There are no such tables.",
      first: { by: "name", descending: false },
      rowKey: (row) => `${row.database}.${row.name}`,
      columns: [
        [
          "Table",
          (row) =>
            h(
              "button",
              {
                type: "button",
                className: "hivex-link",
                onClick: () => go({ tab: "tables", table: `${row.database}.${row.name}` }),
              },
              `${row.database}.${row.name}`,
            ),
          "name",
        ],
        ["Type", (row) => row.type.toLowerCase().replaceAll("_", " "), "type"],
        ["Primary", (row) => row.primary_cluster, "cluster"],
        ["Partitions", (row) => count(row.partitions)],
        ["Owner", (row) => row.owner || "—", "owner"],
        ["Created", (row) => h(Since, { time: row.created_at }), "created"],
      ],
    }),
  );
}

function OneTable({ named, tick, place, go, mayEdit, refresh }) {
  const table = useData(() => get("table", named), [tick]);
  const copies = useData(() => get("table/copies", named), [tick]);
  const partition = place.partition || null;
  const show = (name) => go({ tab: "tables", table: place.table, partition: name });
  return h(
    R.Fragment,
    null,
    h("p", null, h("button", { type: "button", onClick: () => go({ tab: "tables" }) }, "← All tables")),
    h(Shown, { of: table }, (data) =>
      h(R.Fragment, null, h(Definition, { data, mayEdit, refresh }), h(Links, { data, go }), data.is_transactional ? h(Commits, { named, tick }) : null),
    ),
    h(
      Section,
      { title: "Copies" },
      h(Shown, { of: copies }, ({ rows }) =>
        h(Grid, {
          caption: "Clusters that hold the table",
          rows,
          rowKey: (row) => row.cluster,
          columns: [
            ["Cluster", (row) => h(R.Fragment, null, row.cluster, row.is_primary ? h("small", null, "primary") : null)],
            [
              "State",
              (row) =>
                row.is_current
                  ? h("span", { className: "hivex-tag hivex-good" }, "complete")
                  : h(
                      "span",
                      { className: "hivex-tag hivex-warning" },
                      `lacks ${count(row.all_directories - row.directories)} of ${count(row.all_directories)} directories`,
                    ),
            ],
            ["Bytes", (row) => bytes(row.size_bytes)],
            ["Last registered", (row) => h(Since, { time: row.last_registered_at })],
          ],
        }),
      ),
    ),
    table.data && table.data.partition_keys.length
      ? h(
          Section,
          { title: "Partitions" },
          h(List, {
            path: "table/partitions",
            parameters: named,
            tick,
            caption: "Partitions",
            empty: "There are no such partitions.",
            first: { by: "name", descending: true },
            rowKey: (row) => row.name,
            columns: [
              [
                "Partition",
                (row) =>
                  h("button", { type: "button", className: "hivex-link", onClick: () => show(row.name) }, row.name),
                "name",
              ],
              ["Directories", (row) => count(row.directories)],
              ["Deltas", (row) => count(row.deltas)],
              ["Rows", (row) => count(row.rows)],
              ["Bytes", (row) => bytes(row.size_bytes)],
              ["Created", (row) => h(Since, { time: row.created_at }), "created"],
              ...(mayEdit && table.data.is_transactional
                ? [["", (row) => h(Compact, { ...named, partition: row.name, done: refresh })]]
                : []),
            ],
          }),
        )
      : null,
    h(
      Section,
      {
        title: partition ? `Directories of ${partition}` : "Directories",
        actions: partition ? h("button", { type: "button", onClick: () => show(null) }, "Of all partitions") : null,
      },
      h(List, {
        path: "table/directories",
        parameters: { ...named, partition },
        tick,
        caption: "Registered directories",
        empty: "No directory is registered.",
        first: { by: "write_id", descending: true },
        rowKey: (row) => `${row.partition} ${row.name}`,
        columns: [
          [
            "Directory",
            (row) =>
              h(
                R.Fragment,
                null,
                h("span", { className: row.is_obsolete ? "hivex-obsolete" : null }, row.name),
                h("small", null, row.partition || ""),
                row.is_obsolete ? h("small", null, "replaced; kept for readers and earlier versions") : null,
              ),
            "name",
          ],
          ["Write ids", (row) => `${row.min_write_id} to ${row.max_write_id}`, "write_id"],
          ["Files", (row) => count(row.files), "files"],
          ["Rows", (row) => count(row.rows), "rows"],
          ["Bytes", (row) => bytes(row.size_bytes), "size"],
          ["Transaction", (row) => row.txn_id],
          ["Clusters", (row) => row.clusters.join(", ")],
        ],
      }),
    ),
  );
}

function Definition({ data, mayEdit, refresh }) {
  const columns = [
    ...data.columns.map((each) => ({ ...each, isKey: false })),
    ...data.partition_keys.map((each) => ({ ...each, isKey: true })),
  ];
  return h(
    Section,
    {
      title: `${data.database}.${data.table}`,
      actions:
        mayEdit && data.is_transactional && !data.partition_keys.length
          ? h(Compact, { database: data.database, table: data.table, partition: null, done: refresh })
          : null,
    },
    h(
      "p",
      null,
      `${data.type.toLowerCase().replaceAll("_", " ")}, ${data.format}, of ${data.owner || "an unknown owner"}`,
      data.location === null ? null : h("small", null, data.location),
      data.comment ? h("small", null, data.comment) : null,
    ),
    data.view_text ? h("pre", null, data.view_text) : null,
    h(Grid, {
      caption: "Columns",
      rows: columns,
      rowKey: (row) => row.name,
      columns: [
        ["Column", (row) => h(R.Fragment, null, row.name, row.isKey ? h("small", null, "partition key") : null)],
        ["Type", (row) => row.type],
        ["Comment", (row) => row.comment || ""],
      ],
    }),
    h(
      "details",
      null,
      h("summary", null, `Properties (${Object.keys(data.properties).length})`),
      h(Grid, {
        caption: "Properties",
        rows: Object.entries(data.properties),
        rowKey: ([name]) => name,
        columns: [
          ["Name", ([name]) => name],
          ["Value", ([, value]) => value],
        ],
      }),
    ),
  );
}

function Links({ data, go }) {
  const link = (text, place) => h("button", { type: "button", className: "hivex-link", onClick: () => go(place) }, text);
  const first = (rows, all) =>
    all > rows.length ? h("p", { className: "hivex-soft" }, `The first ${count(rows.length)} of ${count(all)}.`) : null;
  return h(
    Section,
    { title: "Links" },
    data.links.length
      ? h(Grid, {
          caption: "Links that show this table",
          rows: data.links,
          rowKey: (row) => `${row.namespace} ${row.link}`,
          columns: [
            ["In: namespace", (row) => link(row.namespace, { tab: "namespaces", namespace: row.namespace })],
            ["Link", (row) => row.link],
            ["Type", (row) => row.type],
          ],
        })
      : h("p", { className: "hivex-soft" }, "No link of another namespace shows it."),
    first(data.links, data.links_in_all),
    data.links_out.length
      ? h(Grid, {
          caption: `Links of ${data.database} to tables of other namespaces`,
          rows: data.links_out,
          rowKey: (row) => row.link,
          columns: [
            ["Out: link", (row) => row.link],
            ["Source", (row) => link(row.source, { tab: "tables", table: row.source })],
            ["Type", (row) => row.type],
          ],
        })
      : h("p", { className: "hivex-soft" }, `${data.database} has no links to tables of other namespaces.`),
    first(data.links_out, data.links_out_in_all),
  );
}

function Commits({ named, tick }) {
  const [by, setBy] = R.useState("day");
  const found = useData(() => get("table/commits", { ...named, by }), [by, tick]);
  return h(
    Section,
    {
      title: "Commits over time",
      actions: h(Picker, {
        label: "Period",
        value: by,
        options: [
          ["day", "30 days"],
          ["hour", "48 hours"],
        ],
        onChange: setBy,
      }),
    },
    h(Shown, { of: found }, (data) => {
      const rows = new Map(data.rows.map((row) => [Date.parse(row.start), row]));
      const length = data.by === "hour" ? 16 : 10;
      const periods = data.starts.map((start) => ({
        label: `${start.slice(0, length).replace("T", " ")} UTC`,
        row: rows.get(Date.parse(start)),
      }));
      return h(Columns, {
        title: "Commits",
        periods,
        value: (each) => (each.row ? each.row.commits : 0),
        rowKey: (each) => each.label,
        columns: [
          ["From", (each) => each.label],
          ["Commits", (each) => count(each.row.commits)],
          ["Rows", (each) => count(each.row.rows)],
          ["Bytes", (each) => bytes(each.row.size_bytes)],
          ["Compactions", (each) => count(each.row.compactions)],
        ],
      });
    }),
    h(
      "p",
      { className: "hivex-soft" },
      "Commits are counted by their registered directories, without those that were compacted and cleaned since.",
    ),
  );
}
