import { get, of, post, query } from "../api";
import { attempt, notice, said } from "../dialog";
import { bdi, button, copier, empty, field, fill, h, mono, setText } from "../dom";
import { count } from "../text";
import type { Checked, Rules } from "../types";
import type { Tab } from "./sandbox";

const pause = 250; // ms without a key before the rules are checked

const levels: Record<string, string> = { none: "hidden", view: "listed, content hidden", read: "read-only", write: "read and write", ask: "asks" };

/** level returns a level with what it means. */
function level(l: string): HTMLElement {
  return h("span", { class: "level " + (levels[l] ? l : "") }, l, h("span", { class: "dim" }, levels[l] ? " " + levels[l] : ""));
}

/** rules shows the rules of a sandbox, edits them, and explains a path as they are and as they would be. */
export const rules: Tab = (main, box) => {
  const text = h("textarea", { class: "mono", rows: 12, spellcheck: "false", autocapitalize: "off", "aria-describedby": "rules-problems", oninput: () => changed() });
  const path = h("input", { type: "text", class: "mono", placeholder: "src/login.go", autocomplete: "off", spellcheck: "false", oninput: () => changed() });
  const problems = h("div", { id: "rules-problems", class: "problems", role: "status" }), explained = h("div", { class: "explained", "aria-live": "polite" });
  const save = button("Save rules", () => void attempt(async () => {
    const r = await post<{ rules: number }>(of(box.id, "/rules"), { text: text.value });
    saved = text.value;
    notice(`${count(r.rules, "rule")} bind now.`);
    await load();
  }), "primary", { disabled: true });
  const undo = button("Undo", () => { text.value = saved; changed(); }, "", { disabled: true });
  const all = h("tbody"), preset = h("p", { class: "dim" }), net = h("section");
  main.append(h("div", { class: "columns editor" },
    h("section", null, h("h2", null, "Rules of this sandbox"), preset, field("One rule a line: PATTERN=LEVEL, level none, view, read, write or ask", text), problems, h("div", { class: "actions" }, save, undo)),
    h("section", null, h("h2", null, "What they give a path"), field("Path in the codebase", path), explained)),
    net,
    h("details", null, h("summary", null, "All rules, in their order"), h("table", { class: "files", "aria-label": "All rules" }, h("thead", null, h("tr", null, ["Rule", "From", "Reason"].map((x) => h("th", { scope: "col" }, x)))), all)));
  let saved = "", timer = 0, turn = 0, closed = false;
  const check = async () => {
    const mine = ++turn, p = path.value.trim();
    try {
      const r = await post<Checked>(of(box.id, "/rules/check"), { text: text.value, paths: p ? [p] : [] });
      const now = p ? (await get<Rules>(of(box.id, "/rules" + query({ path: p })))).path : undefined;
      if (closed || mine !== turn) return;
      fill(problems, (r.problems ?? []).map((x) => h("p", { class: "bad" }, x.line ? `Line ${x.line}: ` : "", bdi(x.message))));
      save.disabled = !r.ok || text.value === saved;
      undo.disabled = text.value === saved;
      fill(explained, p === "" ? h("p", { class: "dim" }, "Enter a path: each key shows what the rules give it.") : (r.paths ?? []).map((x) => h("div", null,
        h("p", null, mono(x.path)), h("p", null, "now ", level(x.now)),
        x.then !== x.now ? h("p", { class: "then" }, "with these rules ", level(x.then)) : h("p", { class: "dim" }, text.value === saved ? "" : "The same with these rules."),
        x.rule ? h("p", null, "by ", mono(x.rule.rule), x.rule.source ? h("span", { class: "dim" }, " from ", bdi(x.rule.source)) : "", x.rule.reason ? h("span", { class: "dim" }, ": ", bdi(x.rule.reason)) : "") : h("p", { class: "dim" }, "No rule matches."),
        now?.allow ? h("p", { class: "remedy" }, h("span", { class: "dim" }, "One level more: "), copier("wolffia policy add " + box.id + " " + now.allow)) : "")));
    } catch (e) {
      if (mine === turn) fill(problems, h("p", { class: "bad" }, bdi(said(e))));
    }
  };
  const changed = () => {
    save.disabled = true;
    clearTimeout(timer);
    timer = window.setTimeout(() => void check(), pause);
  };
  const load = async () => {
    const r = await get<Rules>(of(box.id, "/rules"));
    if (closed) return;
    if (text.value === saved) text.value = r.text ?? "";
    saved = r.text ?? "";
    setText(preset, (r.preset ? `They come on top of the preset ${r.preset}.` : "") + (r.filter ? "" : " This sandbox has no filter: rules do not bind."));
    fill(all, (r.rules ?? []).map((x) => h("tr", null, h("td", { class: "wide" }, mono(x.rule)), h("td", null, bdi(x.source ?? "")), h("td", { class: "dim" }, bdi(x.reason ?? "")))));
    network(r);
    await check();
  };
  const network = (r: Rules) => {
    if (r.network !== "filtered") {
      fill(net, h("h2", null, "Network"), empty(r.network === "host" ? "It has the host's network." : "It has no network."));
      return;
    }
    const names = h("textarea", { class: "mono", rows: 4, spellcheck: "false", autocapitalize: "off" });
    names.value = (r.egress?.allow ?? []).join("\n");
    fill(net, h("h2", null, "Network"), field("Names it may connect to, one a line: NAME or NAME:PORTS", names), h("div", { class: "actions" }, button("Save names", () => void attempt(async () => {
      const x = await post<{ allow: string[] | null }>(of(box.id, "/network"), { allow: names.value.split(/\s+/).filter(Boolean) });
      names.value = (x.allow ?? []).join("\n");
      notice(`It may connect to ${count(x.allow?.length ?? 0, "name")}.`);
    }), "primary")));
  };
  void attempt(load);
  return { close: () => { closed = true; clearTimeout(timer); } };
};
