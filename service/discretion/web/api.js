// The HTTP API, as this browser's session sees it. The token itself is never kept: sign-in trades it for a cookie that
// scripts cannot read, and writes carry the session's CSRF token.

let csrf = null;

export class Problem extends Error {
  constructor(status, code, detail, body = {}) {
    super(detail);
    this.status = status;
    this.code = code;
    this.body = body;
  }
}

export const UNREACHABLE = "The service does not answer. It may be restarting: wait a moment and try again.";

async function call(method, path, { body, headers = {}, signal } = {}) {
  const given = { ...headers };
  if (body !== undefined) given["Content-Type"] = "application/json";
  if (csrf && method !== "GET") given["X-CSRF-Token"] = csrf;
  let answer;
  try {
    answer = await fetch(path, {
      method, headers: given, signal, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin",
    });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Problem(0, "unreachable", UNREACHABLE);
  }
  if (!answer.ok) throw told(answer.status, await answer.text().catch(() => ""));
  return answer;
}

function told(status, text) {
  if (status === 401 && csrf) {
    csrf = null;
    dispatchEvent(new Event("session-over"));
  }
  try {
    const body = JSON.parse(text);
    return new Problem(status, body.code, body.detail, body);
  } catch {
    const detail = status >= 500 ? UNREACHABLE : `The service answered ${status}.`;
    return new Problem(status, "unknown", detail);
  }
}

export async function get(path, options) {
  return (await call("GET", path, options)).json();
}

// As it was sent, byte for byte: for what is certified.
export async function text(path) {
  return (await call("GET", path)).text();
}

// The same for what is too large to be a text on the page's own time.
export async function bytes(path) {
  return (await call("GET", path)).arrayBuffer();
}

export async function post(path, body, options = {}) {
  return (await call("POST", path, { ...options, body })).json();
}

// Once, however often the button is pressed or the connection breaks: `key` is made by `once()` when a form is shown.
export async function postOnce(path, body, key) {
  const options = { headers: { "Idempotency-Key": key } };
  try {
    return await post(path, body, options);
  } catch (problem) {
    if (problem.status !== 0) throw problem;
    return post(path, body, options);
  }
}

export function once() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function patch(path, body) {
  return (await call("PATCH", path, { body })).json();
}

export async function remove(path) {
  const answer = await call("DELETE", path);
  return answer.status === 204 ? null : answer.json();
}

// Every item of a paged list, up to `most`.
export async function all(path, { items = "items", most = 5000 } = {}) {
  const found = [];
  let after = null;
  do {
    const joint = path.includes("?") ? "&" : "?";
    const page = await get(after === null ? path : `${path}${joint}after=${encodeURIComponent(after)}`);
    found.push(...page[items]);
    after = page.next;
  } while (after !== null && found.length < most);
  return found;
}

// A file as it is, with what has been sent so far told to `progressed`; fetch cannot tell it.
export function upload(path, file, type, progressed, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    request.setRequestHeader("Content-Type", type);
    request.setRequestHeader("X-CSRF-Token", csrf);
    request.upload.addEventListener("progress", (event) => progressed(event.loaded, event.total));
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(told(request.status, request.responseText));
    });
    const lost = "The connection broke before the service had everything. Nothing was kept; send the file again.";
    request.addEventListener("error", () => reject(new Problem(0, "unreachable", lost)));
    request.addEventListener("abort", () => reject(new Problem(0, "stopped", "You stopped it. Nothing was kept.")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

// A training as it changes. The browser connects again by itself when the service restarts; `lost` is told meanwhile.
export function watch(path, changed, lost) {
  const source = new EventSource(path);
  source.addEventListener("training", (event) => changed(JSON.parse(event.data)));
  source.addEventListener("error", () => lost(source.readyState === EventSource.CLOSED));
  return () => source.close();
}

export async function signIn(token) {
  return remembered(await post("/v1/session", { token }));
}

export async function session() {
  return remembered(await get("/v1/session"));
}

export async function signOut() {
  await call("DELETE", "/v1/session");
  csrf = null;
}

function remembered(found) {
  csrf = found.csrf;
  return found;
}
