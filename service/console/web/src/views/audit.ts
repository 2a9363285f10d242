import { get, query, save } from "../api";
import { histogram } from "../chart";
import { bdi, button, empty, field, fill, h, mono, setText } from "../dom";
import { attempt } from "../dialog";
import { shortcuts } from "../keys";
import { can, nameOf, state } from "../store";
import { clean, count, moment, quoted, span } from "../text";
import type { Evidence } from "../types";
import type { View } from "../view";

const page = 200, slots = 60;

/** line returns one entry of the log. */
function line(e: Evidence): HTMLElement {
  const result: (Node | string)[] = [];
  if (e.exitCode !== undefined && e.kind === "command") result.push(h("span", { class: e.exitCode === 0 ? "good" : "bad" }, "exit " + e.exitCode));
  if (e.durationMs) result.push(span(e.durationMs));
  if (e.denied) result.push(h("span", { class: "bad" }, e.denied + " denied"));
  if (e.refused) result.push(h("span", { class: "bad" }, e.refused + " refused"));
  const q = e.question, a = e.answer;
  return h("tr", null,
    h("td", { class: "nowrap", "data-label": "Time" }, h("time", { datetime: new Date(e.time).toISOString() }, moment(e.time))),
    h("td", { "data-label": "Kind" }, h("span", { class: "kind " + (/^[a-z]+$/.test(e.kind) ? e.kind : "") }, clean(e.kind, 20))),
    h("td", { "data-label": "Sandbox" }, bdi(nameOf(e.sandbox)), e.who && h("span", { class: "sub" }, "by ", bdi(e.who))),
    h("td", { class: "wide", "data-label": "What" }, e.command?.length ? mono(quoted(e.command)) : "",
      a && [h("span", { class: a.allow ? "good" : "bad" }, a.allow ? "yes" : "no", a.scope && a.scope !== "once" ? ", " + clean(a.scope, 20) : ""), " to ", mono(q?.program || "a program"), " for ", mono(a.target || q?.host || q?.path || "")],
      e.changes ? [e.kind === "export" ? "branches" : count(e.changes, "change"), ": ", mono((e.paths ?? []).slice(0, 8).join(", ")), (e.paths?.length ?? 0) > 8 ? "…" : ""] : "",
      (e.notes ?? []).map((n) => h("span", { class: "sub" }, bdi(n))), h("span", { class: "sub" }, bdi(e.dir || e.codebase || ""))),
    h("td", { "data-label": "Result" }, result.map((r, i) => [i ? " · " : "", r])),
    h("td", { class: "dim", "data-label": "Hash" }, h("span", { class: "mono", title: clean(e.hash, 100) }, clean(e.hash, 200).slice(0, 8))));
}

/** audit searches the log of evidence. */
export const audit: View = (main) => {
  if (!can("evidence")) {
    main.append(h("div", { class: "bar" }, h("h1", null, "Audit")), empty("This server offers no log of evidence to this key."));
    return { close() {} };
  }
  const input = (type: string, more = {}) => h("input", { type, autocomplete: "off", onchange: () => void load(), ...more });
  const q = input("search", { placeholder: "Command, path, answer" }), since = input("datetime-local"), until = input("datetime-local");
  const box = h("select", { onchange: () => void load() }, h("option", { value: "" }, "all"),
    [...state.sandboxes.values()].map((s) => h("option", { value: s.id }, clean(s.name || s.id, 60))));
  const kind = h("select", { onchange: () => void load() }, h("option", { value: "" }, "all"), ["command", "answer", "apply", "discard", "export"].map((k) => h("option", { value: k }, k)));
  const params = () => ({ q: q.value, since: since.value ? new Date(since.value).getTime() : "", until: until.value ? new Date(until.value).getTime() : "", sandbox: box.value, kind: kind.value });
  const time = h("div", { class: "timeline" }), body = h("tbody"), nothing = empty("Nothing matches."), state_ = h("p", { class: "verified", role: "status" });
  const more = button("Older entries", () => void load(true));
  const t = h("table", { class: "audit", "aria-label": "Entries of the log" }, h("thead", null, h("tr", null, ["Time", "Kind", "Sandbox", "What", "Result", "Hash"].map((x) => h("th", { scope: "col" }, x)))), body);
  let all: Evidence[] = [], asked = 0;
  const draw = (older: boolean) => {
    t.hidden = all.length === 0;
    nothing.hidden = all.length > 0;
    more.hidden = !older;
    fill(body, all.map(line));
    fill(time);
    if (all.length < 2) return;
    const newest = all[0]!.time, oldest = all.at(-1)!.time, width = Math.max(1, newest - oldest + 1) / slots;
    const bars = new Array<number>(slots).fill(0);
    for (const e of all) bars[Math.min(slots - 1, Math.max(0, Math.floor((e.time - oldest) / width)))]!++;
    time.append(histogram(bars, bars.map((n, i) => count(n, "entry") + " from " + moment(oldest + i * width))),
      h("div", { class: "ends dim" }, h("span", null, moment(oldest)), h("span", null, moment(newest))));
  };
  const load = (older = false) => attempt(async () => {
    const mine = ++asked;
    const r = await get<{ entries: Evidence[]; more: boolean }>("evidence" + query({ ...params(), limit: page, before: older ? all.at(-1)?.seq : undefined }));
    if (mine !== asked) return;
    all = older ? [...all, ...r.entries] : r.entries;
    draw(r.more);
  });
  const verify = () => attempt(async () => {
    setText(state_, "Checking…");
    const r = await get<{ ok: boolean; lines: number; head: string; broken?: { file: string; line: number; problem: string }; note: string }>("evidence/verify");
    fill(state_, h("span", { class: r.ok ? "good" : "bad" }, r.ok ? "The chain is whole: " : "The chain is broken: "),
      r.ok || !r.broken ? count(r.lines, "line") + ", head " : bdi(`${r.broken.file}, line ${r.broken.line}: ${r.broken.problem}`), r.ok && mono(r.head.slice(0, 16)), h("span", { class: "sub" }, bdi(r.note ?? "")));
  });
  main.append(
    h("div", { class: "bar" }, h("h1", null, "Audit"),
      h("span", { class: "side" }, button("Verify the chain", () => void verify()), button("Export JSONL", () => void attempt(() => save("evidence/export" + query(params()), "wolffia-evidence.jsonl"))))),
    h("form", { class: "filters", onsubmit: (e: Event) => { e.preventDefault(); void load(); } },
      field("Search", q, "grow"), field("From", since), field("To", until), field("Sandbox", box), field("Kind", kind)),
    state_, time, t, nothing, more);
  shortcuts([{ keys: "/", text: "search", act: () => q.focus() }]);
  draw(false);
  nothing.hidden = true;
  void load();
  return { close() {} };
};
