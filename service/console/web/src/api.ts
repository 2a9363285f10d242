/** A Failure is an answer that says what went wrong. Its message is for people. */
export class Failure extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly result?: unknown) {
    super(message);
  }
}

const stored = "wolffia.token";
let token = "";

/**
 * takeToken takes the token out of the address, or out of the store of this tab. No address with a token stays in the
 * history.
 */
export function takeToken(): void {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (found) {
    history.replaceState(null, "", location.pathname);
    setToken(found[1]!);
  } else token = sessionStorage.getItem(stored) ?? "";
}

/** setToken remembers a token until the tab is closed. */
export function setToken(t: string): void {
  token = t;
  if (t) sessionStorage.setItem(stored, t);
  else sessionStorage.removeItem(stored);
}

const base = new URL("api/", new URL(".", location.href));

function headers(more: Record<string, string> = {}): Record<string, string> {
  return token ? { ...more, Authorization: "Bearer " + token } : more;
}

async function fetched(path: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(new URL(path, base), { cache: "no-store", credentials: "omit", redirect: "error", ...init });
  } catch (e) {
    if (init.signal?.aborted) throw e;
    throw new Failure(0, "unreachable", "wolffia does not answer: is it still running?");
  }
  if (answer.ok) return answer;
  let code = "http", message = "the answer has the status " + answer.status, result: unknown;
  try {
    const body = (await answer.json()) as { error?: { code?: string; message?: string }; result?: unknown; code?: string; message?: string };
    code = body.error?.code ?? body.code ?? code;
    message = body.error?.message ?? body.message ?? message;
    result = body.result;
  } catch {
    // it is not ours
  }
  throw new Failure(answer.status, code, message, result);
}

/** get returns an answer in JSON. What is not available now, as while others use it, is asked for again. */
export async function get<T>(path: string): Promise<T> {
  for (let wait = 200; ; wait *= 2) {
    try {
      return (await (await fetched(path, { headers: headers() })).json()) as T;
    } catch (e) {
      if (!(e instanceof Failure && e.code === "unavailable" && wait < 2000)) throw e;
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** post sends JSON and returns an answer in JSON. */
export async function post<T>(path: string, body: unknown = {}): Promise<T> {
  const answer = await fetched(path, { method: "POST", body: JSON.stringify(body), headers: headers({ "Content-Type": "application/json" }) });
  return (await answer.json()) as T;
}

/** stream returns an answer that goes on. */
export async function stream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  return (await fetched(path, { headers: headers({ Accept: "text/event-stream" }), signal })).body!;
}

/** save has the browser save an answer as a file. */
export async function save(path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await (await fetched(path, { headers: headers() })).blob());
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** socket opens a WebSocket. The token is in its second protocol, since a page can set no header of it. */
export function socket(path: string): WebSocket {
  const url = new URL(path, base);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const protocols = ["wolffia.console"];
  if (token) {
    let raw = "";
    for (const b of new TextEncoder().encode(token)) raw += String.fromCharCode(b);
    protocols.push("wolffia.token." + btoa(raw).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
  }
  const s = new WebSocket(url, protocols);
  s.binaryType = "arraybuffer";
  return s;
}

/** query returns the parameters of an address, without those that are empty. */
export function query(params: Record<string, string | number | undefined>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== "") q.set(k, String(v));
  const text = q.toString();
  return text ? "?" + text : "";
}

/** of returns the path of a call about a sandbox. */
export function of(id: string, rest = ""): string {
  return "sandboxes/" + encodeURIComponent(id) + rest;
}
