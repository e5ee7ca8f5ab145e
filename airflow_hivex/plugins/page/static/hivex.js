/* The page "Hivex": the frame with the connection, the tabs and the refreshing. Airflow loads it as a module, shows
   globalThis.AirflowPlugin, and provides React. Nothing here is built or downloaded. */
import { get, setConnection } from "./api.js";
import { Failure, Loading, Picker, ensureStyle, h, useData } from "./parts.js";
import { Cache } from "./cache.js";
import { Compactions } from "./compactions.js";
import { History } from "./history.js";
import { Namespaces } from "./namespaces.js";
import { Overview } from "./overview.js";
import { Routing } from "./routing.js";
import { Tables } from "./tables.js";
import { Transactions } from "./transactions.js";

const R = globalThis.React;
const TABS = [
  ["overview", "Overview", Overview],
  ["history", "History", History],
  ["transactions", "Transactions and locks", Transactions],
  ["compactions", "Compactions", Compactions],
  ["tables", "Tables", Tables],
  ["routing", "Routing", Routing],
  ["namespaces", "Namespaces", Namespaces],
  ["cache", "Cache", Cache],
];
const REFRESH_S = [0, 5, 15, 60];

/* The place in the page is a part of its address, so that it can be sent to another person. */
function readPlace() {
  const parameters = new URLSearchParams(globalThis.location.search);
  return Object.fromEntries(parameters.entries());
}

function Page() {
  const [place, setPlace] = R.useState(readPlace);
  const [seconds, setSeconds] = R.useState(15);
  const [tick, setTick] = R.useState(0);
  const connections = useData(() => get("connections"), []);
  const tab = TABS.some(([key]) => key === place.tab) ? place.tab : "overview";

  const go = (next) => {
    const parameters = new URLSearchParams();
    for (const [key, value] of Object.entries(next)) if (value) parameters.set(key, value);
    const search = parameters.toString();
    // With the path: the page has a base address of its own, which a search alone would lead to.
    const path = globalThis.location.pathname;
    globalThis.history.pushState(globalThis.history.state, "", search ? `${path}?${search}` : path);
    setPlace(next);
  };
  R.useEffect(() => {
    const back = () => setPlace(readPlace());
    globalThis.addEventListener("popstate", back);
    return () => globalThis.removeEventListener("popstate", back);
  }, []);
  R.useEffect(() => {
    if (!seconds) return undefined;
    // A hidden page asks nothing.
    const timer = setInterval(() => document.hidden || setTick((old) => old + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  R.useEffect(ensureStyle, []);
  // In a narrow window the tabs do not fit beside each other.
  const isKnown = Boolean(connections.data);
  R.useEffect(() => {
    document.getElementById(`hivex-tab-${tab}`)?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [tab, isKnown]);

  if (connections.error) return h("div", { className: "hivex" }, h(Failure, { error: connections.error }));
  if (!connections.data) return h("div", { className: "hivex" }, h(Loading));
  const known = connections.data.connections;
  if (!known.length && !place.connection) {
    return h("div", { className: "hivex" }, h("p", null, "There is no warehouse that you may see."));
  }
  const connection = place.connection || known[0].conn_id;
  setConnection(connection);
  const own = known.find((each) => each.conn_id === connection);
  const names = known.map((each) => each.conn_id);
  if (!names.includes(connection)) names.push(connection);
  const Shown = TABS.find(([key]) => key === tab)[2];
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = TABS.findIndex(([key]) => key === tab);
    const next = TABS[(at + step + TABS.length) % TABS.length][0];
    go({ connection: place.connection, tab: next });
    document.getElementById(`hivex-tab-${next}`)?.focus();
  };

  return h(
    "div",
    { className: "hivex" },
    h(
      "header",
      { className: "hivex-head" },
      h("h1", null, "Hivex"),
      h(Picker, {
        label: "Connection",
        value: connection,
        options: names.map((name) => [name, name]),
        onChange: (name) => go({ connection: name, tab }),
      }),
      h(Picker, {
        label: "Refresh",
        value: String(seconds),
        options: REFRESH_S.map((each) => [String(each), each ? `every ${each} s` : "never"]),
        onChange: (value) => setSeconds(Number(value)),
      }),
      h("button", { type: "button", onClick: () => setTick(tick + 1) }, "Refresh now"),
    ),
    h(
      "div",
      { role: "tablist", "aria-label": "Parts of the warehouse", className: "hivex-tabs", onKeyDown: move },
      TABS.map(([key, title]) =>
        h(
          "button",
          {
            key,
            type: "button",
            role: "tab",
            id: `hivex-tab-${key}`,
            "aria-selected": key === tab,
            "aria-controls": "hivex-panel",
            tabIndex: key === tab ? 0 : -1,
            onClick: () => go({ connection: place.connection, tab: key }),
          },
          title,
        ),
      ),
    ),
    h(
      "div",
      { role: "tabpanel", id: "hivex-panel", "aria-labelledby": `hivex-tab-${tab}`, tabIndex: 0 },
      h(Shown, {
        key: `${connection} ${tab}`,
        tick,
        place,
        mayEdit: Boolean(own && own.may_edit),
        refresh: () => setTick((old) => old + 1),
        go: (next) => go({ connection: place.connection, ...next }),
      }),
    ),
  );
}

globalThis.AirflowPlugin = Page;
