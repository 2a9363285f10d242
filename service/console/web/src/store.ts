import { get, query, stream, type Failure } from "./api";
import type { About, Denied, Question, Sample, Sandbox } from "./types";

/** What the page knows, as the stream of events has it. */
export const state = {
  about: null as About | null,
  sandboxes: new Map<string, Sandbox>(),
  questions: [] as Question[],
  history: new Map<string, Sample[]>(),
  denied: [] as { sandbox: string; denied: Denied }[], // since the page was opened, newest first
  link: "connecting" as "connecting" | "live" | "lost",
};

const points = 60; // of a small chart
const mostDenied = 500;

export type Topic = "sandboxes" | "sandbox" | "samples" | "questions" | "denied" | "link";

const listeners = new Map<Topic, Set<(id?: string) => void>>();

/** on calls f after each change of a topic, until the function it returns is called. */
export function on(topic: Topic, f: (id?: string) => void): () => void {
  let set = listeners.get(topic);
  if (!set) listeners.set(topic, (set = new Set()));
  set.add(f);
  return () => set.delete(f);
}

function tell(topic: Topic, id?: string): void {
  for (const f of [...(listeners.get(topic) ?? [])]) f(id);
}

/** can reports whether the server offers a part. */
export function can(part: string): boolean {
  return state.about?.can?.includes(part) ?? false;
}

/** nameOf returns what a sandbox is called. */
export function nameOf(id: string): string {
  return state.sandboxes.get(id)?.name || id;
}

/** put notes what an answer says of a sandbox. */
export function put(s: Sandbox): void {
  const known = state.sandboxes.has(s.id);
  state.sandboxes.set(s.id, s);
  tell(known ? "sandbox" : "sandboxes", s.id);
}

/** answered removes a question that waits no more. */
export function answered(q: Question): void {
  state.questions = state.questions.filter((o) => o.sandbox !== q.sandbox || o.id !== q.id);
  tell("questions");
}

function note(id: string, sample: Sample): void {
  const s = state.sandboxes.get(id);
  if (s) s.now = sample;
  let list = state.history.get(id);
  if (!list) state.history.set(id, (list = []));
  if (sample.time > (list.at(-1)?.time ?? 0)) list.push(sample);
  if (list.length > points) list.splice(0, list.length - points);
}

function heed(event: string, data: never): void {
  switch (event) {
    case "hello": {
      const d = data as { sandboxes: Sandbox[]; questions: Question[] | null };
      state.sandboxes = new Map(d.sandboxes.map((s) => [s.id, s]));
      state.questions = d.questions ?? [];
      state.link = "live";
      for (const s of d.sandboxes) if (s.now) note(s.id, s.now);
      for (const id of state.history.keys()) if (!state.sandboxes.has(id)) state.history.delete(id);
      tell("link");
      tell("sandboxes");
      tell("questions");
      break;
    }
    case "sandbox":
      put(data as Sandbox);
      break;
    case "gone": {
      const { id } = data as { id: string };
      state.sandboxes.delete(id);
      state.history.delete(id);
      tell("sandboxes", id);
      break;
    }
    case "samples":
      for (const [id, sample] of Object.entries((data as { samples: Record<string, Sample> }).samples)) note(id, sample);
      tell("samples");
      break;
    case "denied": {
      const d = data as { sandbox: string; denied: Denied };
      state.denied.unshift(d);
      if (state.denied.length > mostDenied) state.denied.length = mostDenied;
      tell("denied", d.sandbox);
      break;
    }
    case "questions":
      state.questions = (data as { questions: Question[] | null }).questions ?? [];
      tell("questions");
      break;
  }
}

/** fillHistory gets the samples from before the page was opened. Without them the charts begin empty. */
async function fillHistory(): Promise<void> {
  const { history } = await get<{ history: Record<string, Sample[]> }>("history" + query({ points }));
  for (const [id, list] of Object.entries(history)) {
    const newest = list.at(-1)?.time ?? 0;
    const since = (state.history.get(id) ?? []).filter((s) => s.time > newest);
    state.history.set(id, [...list, ...since].slice(-points));
  }
  tell("samples");
}

const dead = 40_000; // ms without a byte
const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** read passes on the events of a stream until it ends. */
async function read(body: ReadableStream<Uint8Array>, alive: () => void): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) {
      let event = "", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) heed(event, JSON.parse(data) as never);
    }
  }
}

/** follow keeps the stream of events open for as long as the page is. `refused` is called when the token is not valid. */
export async function follow(refused: () => void): Promise<void> {
  for (let wait = 500; ; wait = Math.min(10_000, wait * 2)) {
    const stop = new AbortController();
    let timer = setTimeout(() => stop.abort(), dead);
    try {
      const body = await stream("events", stop.signal);
      await read(body, () => {
        clearTimeout(timer);
        timer = setTimeout(() => stop.abort(), dead);
        if (wait > 500) void fillHistory().catch(() => {});
        wait = 500;
      });
    } catch (e) {
      const status = (e as Failure).status;
      if (status === 401) {
        clearTimeout(timer);
        refused();
        return;
      }
    }
    clearTimeout(timer);
    if (state.link !== "lost") {
      state.link = "lost";
      tell("link");
    }
    await sleep(wait);
  }
}

/** begin gets what the page needs first. */
export async function begin(): Promise<void> {
  state.about = await get<About>("about");
  void fillHistory().catch(() => {});
}
