/* Namespaces: what they hold, quotas, links, and whether they are closed. */
import { get } from "./api.js";
import { Attention, Bars, Graph, Grid, Section, Shown, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;

export function Namespaces({ tick, place, go }) {
  const found = useData(() => get("namespaces"), [tick]);
  return h(Shown, { of: found }, (data) =>
    h(
      R.Fragment,
      null,
      data.attention.length ? h(Section, { title: "Quotas" }, h(Attention, { items: data.attention })) : null,
      h(
        Section,
        { title: "Capacity" },
        h(Grid, {
          caption: "Use of clusters by namespaces",
          rows: data.rows,
          rowKey: (row) => `${row.namespace} ${row.cluster}`,
          columns: [
            [
              "Namespace",
              (row) =>
                h(
                  "button",
                  {
                    type: "button",
                    className: "hivex-link",
                    onClick: () => go({ tab: "namespaces", namespace: row.namespace }),
                  },
                  row.namespace,
                ),
            ],
            ["Cluster", (row) => row.cluster],
            ["Own data", (row) => bytes(row.owned_bytes)],
            ["Secondary copies", (row) => bytes(row.secondary_bytes)],
            ["Old files, to be deleted", (row) => bytes(row.obsolete_bytes)],
            ["In 7 days", (row) => (row.growth_7d_bytes === null ? "—" : growth(row.growth_7d_bytes))],
            ["Quota", quota],
          ],
        }),
        data.total > data.rows.length
          ? h("p", { className: "hivex-soft" }, `The first ${count(data.rows.length)} of ${count(data.total)}.`)
          : null,
      ),
      place.namespace ? h(OneNamespace, { key: place.namespace, namespace: place.namespace, tick }) : null,
      h(Section, { title: "Links" }, h(Links, { data })),
    ),
  );
}

function growth(number) {
  return `${number < 0 ? "−" : "+"}${bytes(Math.abs(number))}`;
}

function quota(row) {
  if (!row.quota) return "none";
  const kind = { ok: "good", warning: "warning", exceeded: "broken" }[row.status];
  const share = Math.round((100 * row.used_bytes) / row.quota.size_bytes);
  return h("span", { className: `hivex-tag hivex-${kind}` }, `${share} % of ${bytes(row.quota.size_bytes)}`);
}

function Links({ data }) {
  if (!data.links.length) return h("p", { className: "hivex-soft" }, "There are no links.");
  const between = new Map();
  for (const each of data.links) {
    const key = JSON.stringify([each.namespace, each.source_namespace]);
    between.set(key, [...(between.get(key) || []), each.link]);
  }
  const edges = [...between].map(([key, names]) => {
    const [from, to] = JSON.parse(key);
    return { from, to, label: names.join(", ") };
  });
  return h(
    R.Fragment,
    null,
    h(Graph, { title: "Namespaces and those whose tables they show", edges }),
    h(Grid, {
      caption: "Links",
      rows: data.links,
      rowKey: (row) => `${row.namespace} ${row.link}`,
      columns: [
        ["Namespace", (row) => row.namespace],
        ["Link", (row) => row.link],
        ["Source", (row) => row.source],
        ["Type", (row) => row.type],
      ],
    }),
    data.links_in_all > data.links.length
      ? h("p", { className: "hivex-soft" }, `The first ${count(data.links.length)} of ${count(data.links_in_all)}.`)
      : null,
  );
}

function OneNamespace({ namespace, tick }) {
  const found = useData(() => get("namespace", { namespace }), [tick]);
  return h(Section, { title: `Namespace ${namespace}` }, h(Shown, { of: found }, (data) => h(Closure, { data })));
}

function Closure({ data }) {
  const state = data.is_self_contained
    ? "It depends on nothing outside."
    : data.is_closed
      ? "It depends on other namespaces through links only."
      : "It depends on other namespaces.";
  const mode = data.mode ? "Statements in it may not name tables of others." : "Statements in it may name tables of others.";
  const clusters = new Map();
  for (const each of data.history) clusters.set(each.cluster, [...(clusters.get(each.cluster) || []), each]);
  return h(
    R.Fragment,
    null,
    h("p", null, `${state} ${mode}`),
    data.dependencies.length
      ? h(Grid, {
          caption: "Dependencies",
          rows: data.dependencies,
          rowKey: (row) => `${row.object} ${row.name} ${row.line}`,
          columns: [
            ["In", (row) => row.object],
            ["Name", (row) => row.name],
            ["Reason", (row) => row.reason],
            ["Cure", (row) => row.create_link || "—"],
          ],
        })
      : null,
    clusters.size
      ? h(
          "div",
          { className: "hivex-side" },
          [...clusters].sort().map(([cluster, records]) =>
            h(Bars, {
              key: cluster,
              title: `Bytes on ${cluster} by day`,
              items: records.slice(-30).map((each) => ({
                label: each.day.slice(0, 10),
                value: each.bytes + each.secondary_bytes,
                text: each.secondary_bytes ? `${bytes(each.bytes)} + ${bytes(each.secondary_bytes)} of copies` : bytes(each.bytes),
              })),
            }),
          ),
        )
      : h("p", { className: "hivex-soft" }, "The housekeeping has not recorded its capacity yet."),
  );
}
