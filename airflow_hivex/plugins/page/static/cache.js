/* Cache: hits, and the reasons of misses. */
import { get } from "./api.js";
import { Figures, Grid, Section, Shown, Since, bytes, count, h, useData } from "./parts.js";

const R = globalThis.React;

export function Cache({ tick }) {
  const found = useData(() => get("cache"), [tick]);
  return h(Shown, { of: found }, (data) =>
    h(
      R.Fragment,
      null,
      h(
        Section,
        { title: `This process of the api-server (${data.process_id})` },
        data.own ? h(Own, { own: data.own }) : h("p", null, "It has no cache of metadata."),
      ),
      h(
        Section,
        { title: "All processes that follow the notification log" },
        h(Grid, {
          caption: "Processes",
          empty: "No process follows the notification log.",
          rows: data.others,
          rowKey: (row) => `${row.host} ${row.process_id} ${row.started_at}`,
          columns: [
            ["Host", (row) => row.host],
            ["Process", (row) => row.process_id],
            ["Since", (row) => h(Since, { time: row.started_at })],
            ["Last seen", (row) => h(Since, { time: row.seen_at })],
            ["Event", (row) => count(row.event_id)],
            ["Counts", (row) => h("small", null, JSON.stringify(row.counts))],
          ],
        }),
      ),
    ),
  );
}

function Own({ own }) {
  const all = own.hits + own.misses;
  return h(
    R.Fragment,
    null,
    h(Figures, {
      items: [
        ["Hit rate", all ? `${((100 * own.hits) / all).toFixed(1)} %` : "—", `${count(own.hits)} of ${count(all)}`],
        ["Tables", count(own.tables), `${bytes(own.used_bytes)} of ${bytes(own.most_bytes)}`],
        ["Events", count(own.events), own.lag === null ? "it does not follow the log" : null],
        ["Resynchronizations", count(own.resynchronizations)],
      ],
    }),
    h(Grid, {
      caption: "Misses by reason",
      empty: "There were no misses.",
      rows: own.misses_by_reason,
      rowKey: (row) => `${row.kind} ${row.reason}`,
      columns: [
        ["Question", (row) => row.kind],
        ["Reason", (row) => row.reason],
        ["Misses", (row) => count(row.count)],
      ],
    }),
    own.recent.length
      ? h(
          "details",
          null,
          h("summary", null, "The last misses"),
          h(Grid, {
            caption: "The last misses",
            rows: own.recent.map((row, number) => ({ ...row, number })).reverse(),
            rowKey: (row) => row.number,
            columns: [
              ["Table", (row) => row.table],
              ["Question", (row) => row.kind],
              ["Reason", (row) => row.reason],
              ["Detail", (row) => row.detail],
            ],
          }),
        )
      : null,
  );
}
