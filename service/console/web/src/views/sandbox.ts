import { get, of, post } from "../api";
import { attempt, sure } from "../dialog";
import { bdi, button, empty, fill, h, setText } from "../dom";
import { shortcuts } from "../keys";
import { go, to, type Place } from "../route";
import { can, on, put, state } from "../store";
import { span } from "../text";
import type { Details, Sandbox } from "../types";
import type { Closer, View } from "../view";
import { changes } from "./changes";
import { denied } from "./denied";
import { files } from "./files";
import { jobs } from "./jobs";
import { overview } from "./overview";
import { rules } from "./rules";

/** A Tab shows a part of one sandbox. */
export type Tab = (main: HTMLElement, box: Box, rest: string) => Closer;

/** A Box is the sandbox that is shown. */
export interface Box {
  id: string;
  now(): Sandbox;
  runs(): boolean;
}

const terminal: Tab = (main, box, rest) => {
  let closer: Closer | undefined, closed = false;
  const wait = empty("Loading the terminal…");
  main.append(wait);
  void import("./terminal").then((m) => {
    wait.remove();
    if (!closed) closer = m.terminal(main, box, rest);
  }, () => setText(wait, "The terminal could not be loaded: load the page again."));
  return { close: () => { closed = true; closer?.close(); } };
};

const tabs: { name: string; text: string; tab: Tab; has?: (s: Sandbox) => boolean; count?: (s: Sandbox) => number }[] = [
  { name: "", text: "Overview", tab: overview },
  { name: "terminal", text: "Terminal", tab: terminal },
  { name: "jobs", text: "Jobs", tab: jobs },
  { name: "files", text: "Files", tab: files },
  { name: "changes", text: "Changes", tab: changes, has: (s) => s.cow },
  { name: "denied", text: "Refusals", tab: denied, count: (s) => (s.denied ?? 0) + (s.refused ?? 0) },
  { name: "rules", text: "Rules", tab: rules, has: () => can("rules") },
];

/** act has the server do something to a sandbox. */
async function act(id: string, what: string): Promise<void> {
  const r = await post<{ sandbox?: Sandbox }>(of(id, "/" + what));
  if (r.sandbox) put(r.sandbox);
}

/** buttons returns what can be done to a sandbox in its state. */
function buttons(s: Sandbox): HTMLElement[] {
  const run = (text: string, what: string, className = "") => {
    const b = button(text, async () => {
      b.disabled = true;
      await attempt(() => act(s.id, what));
      b.disabled = false;
    }, className);
    return b;
  };
  const found: HTMLElement[] = [];
  if (s.state === "running") found.push(run("Pause", "pause"));
  if (s.state === "paused") found.push(run("Resume", "resume", "primary"));
  if (s.state === "running" || s.state === "paused") {
    found.push(button("Stop", () => void sure("Stop " + (s.name || s.id), s.cow ? "Its processes end. Its changes stay." : "Its processes end. Its files stay.", "Stop", () => act(s.id, "stop"))));
  } else found.push(run("Start", "start", "primary"));
  found.push(button("Destroy", () => {
    const lost = s.cow ? "Its processes end, and what it changed and was not applied is lost, with its snapshots." : "Its processes end, and what it has outside the codebase is lost.";
    void sure("Destroy " + (s.name || s.id), lost, "Destroy", async () => {
      await act(s.id, "destroy");
      go("");
    }, s.name || s.id);
  }, "danger"));
  return found;
}

/** sandbox shows one sandbox. */
export const sandbox: View = (main, first) => {
  const id = first.id;
  const title = h("h1"), about = h("p", { class: "total" }), acts = h("span", { class: "side" });
  const nav = h("nav", { class: "tabs", "aria-label": "Parts of the sandbox" }), body = h("div", { class: "tab" });
  const gone = empty("There is no sandbox with this ID any more.");
  main.append(h("div", { class: "bar sandbox" }, title, about, acts), nav, gone, body);
  let at: Place = first, closer: Closer | undefined, shown: string | undefined, drawn = "", last: Sandbox | undefined;
  const box: Box = {
    id,
    now: () => state.sandboxes.get(id) ?? last!,
    runs: () => state.sandboxes.get(id)?.state === "running",
  };
  const draw = () => {
    const s = state.sandboxes.get(id);
    gone.hidden = s !== undefined || state.link === "connecting" || (last === undefined && !asked);
    if (!s) {
      if (last) {
        closer?.close();
        closer = undefined;
        shown = undefined;
        fill(body);
        fill(acts);
        fill(nav);
        setText(about, "gone");
        last = undefined;
      }
      return;
    }
    last = s;
    setText(about, "");
    fill(about, h("span", { class: "word", "data-state": s.state }, h("span", { class: "dot", "aria-hidden": "true" }), s.state), h("span", { class: "dim" },
      " · ", s.name ? [bdi(s.id), " · "] : "", s.owner ? [bdi(s.owner), " · "] : "", span(Date.now() - s.createdAt) + " old", s.reason ? [" · ", bdi(s.reason)] : ""));
    const key = JSON.stringify([s.name, s.state, s.denied, s.refused, s.cow, at.tab]);
    if (key !== drawn) {
      drawn = key;
      fill(title, bdi(s.name || s.id));
      const focused = document.activeElement instanceof HTMLElement && acts.contains(document.activeElement);
      fill(acts, buttons(s));
      if (focused) acts.querySelector("button")?.focus();
      fill(nav, mine(s).map((t) => {
        const n = t.count?.(s) ?? 0;
        return h("a", { href: to("s", id, ...(t.name ? [t.name] : [])), "aria-current": t.name === at.tab ? "page" : false }, t.text, n > 0 && h("span", { class: "n" }, n.toLocaleString("en")));
      }));
    }
    if (shown === undefined || shown !== at.tab + "/" + at.rest) open(s);
  };
  const mine = (s: Sandbox) => tabs.filter((t) => !t.has || t.has(s));
  const open = (s: Sandbox) => {
    shown = at.tab + "/" + at.rest;
    closer?.close();
    fill(body);
    shortcuts(keys);
    closer = (mine(s).find((t) => t.name === at.tab) ?? tabs[0]!).tab(body, box, at.rest);
  };
  let asked = false;
  const ask = async () => {
    try {
      put(await get<Details>(of(id)));
    } catch {
      // draw says that it is gone
    }
    asked = true;
    draw();
  };
  const keys = [
    ...tabs.map((t, i) => ({ keys: String(i + 1), text: t.text.toLowerCase(), act: () => go("s", id, ...(t.name ? [t.name] : [])) })),
    { keys: "u", text: "all sandboxes", act: () => go("") },
  ];
  const offs = [
    on("sandboxes", draw),
    on("sandbox", (changed) => changed === id && draw()),
    on("link", draw),
  ];
  draw();
  if (!state.sandboxes.has(id)) void ask();
  return {
    close() {
      closer?.close();
      offs.forEach((off) => off());
    },
    moved(p) {
      at = p;
      if (closer?.moved?.(p)) {
        shown = at.tab + "/" + at.rest;
        return true;
      }
      draw();
      return true;
    },
  };
};
