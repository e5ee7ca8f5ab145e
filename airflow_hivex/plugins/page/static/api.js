/* Requests to the routes of the page. */
const BASE = new URL("../api/", import.meta.url);
let connection = "hivex_default";

export class RequestError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function setConnection(name) {
  connection = name;
}

export function get(path, parameters = {}) {
  return send(path, parameters, { headers: { Accept: "application/json" } });
}

export function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-Hivex-Action": "1" };
  return send(path, {}, { method: "POST", headers, body: JSON.stringify(body) });
}

async function send(path, parameters, options) {
  const url = new URL(path, BASE);
  url.searchParams.set("conn_id", connection);
  for (const [key, value] of Object.entries(parameters)) {
    if (value === undefined || value === null || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) url.searchParams.append(key, each);
  }
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", ...options });
  } catch {
    throw new RequestError(0, "UNREACHABLE", "The api-server of Airflow does not answer. The page tries again.");
  }
  let content = null;
  try {
    content = await answer.json();
  } catch {
    /* An answer of a proxy, for example. */
  }
  if (answer.ok && content !== null) return content;
  if (answer.status === 401) {
    throw new RequestError(401, "LOGGED_OUT", "You are logged out. Load the page again to log in.");
  }
  const error = content && content.error;
  const detail = content && typeof content.detail === "string" ? content.detail : "";
  throw new RequestError(
    answer.status,
    error ? error.code : "REFUSED",
    error ? error.message : detail || `The api-server has answered with status ${answer.status}.`,
  );
}
