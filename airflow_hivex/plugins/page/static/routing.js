/* Routing: the cluster that would run a statement, and what each candidate lacks. */
import { post } from "./api.js";
import { Failure, Field, Grid, Section, h } from "./parts.js";

const R = globalThis.React;

export function Routing() {
  const [statement, setStatement] = R.useState("");
  const [database, setDatabase] = R.useState("default");
  const [cluster, setCluster] = R.useState("");
  const [state, setState] = R.useState({});
  const id = R.useId();
  const ask = (event) => {
    event.preventDefault();
    setState({ busy: true });
    post("route", { statement, database, cluster: cluster.trim() || null }).then(
      (data) => setState({ data }),
      (error) => setState({ error }),
    );
  };
  return h(
    Section,
    { title: "Where would a statement run?" },
    h(
      "form",
      { onSubmit: ask },
      h("label", { htmlFor: id }, "Statement (it is not run)"),
      h("textarea", {
        id,
        rows: 6,
        value: statement,
        required: true,
        spellCheck: false,
        maxLength: 200000,
        placeholder: "SELECT * FROM sales JOIN customers USING (customer_id)",
        onChange: (event) => setStatement(event.target.value),
      }),
      h(
        "div",
        { className: "hivex-filters" },
        h(Field, { label: "Database", value: database, onChange: setDatabase, required: true }),
        h(Field, { label: "Cluster of USE CLUSTER", value: cluster, onChange: setCluster, placeholder: "none" }),
        h("button", { type: "submit", disabled: Boolean(state.busy), className: "hivex-primary" }, "Find the route"),
      ),
    ),
    state.error ? h(Failure, { error: state.error }) : null,
    state.data ? h(Route, { route: state.data }) : null,
  );
}

export function Route({ route }) {
  return h(
    "div",
    { role: "status" },
    h(
      "p",
      { className: `hivex-note hivex-${route.cluster ? "good" : "broken"}` },
      h("strong", null, route.cluster ? `Cluster ${route.cluster}. ` : "No cluster. "),
      route.reason,
      route.alternative ? ` USE CLUSTER ${route.alternative} would find one.` : "",
    ),
    h(Grid, {
      caption: "Candidates, in the order in which they are tried",
      rows: route.candidates,
      rowKey: (row) => row.cluster,
      columns: [
        ["Cluster", (row) => row.cluster],
        ["Why", (row) => row.why],
        [
          "Lacks",
          (row) => (row.lacks.length ? h("ul", null, row.lacks.map((each) => h("li", { key: each }, each))) : "nothing"),
        ],
      ],
    }),
  );
}
