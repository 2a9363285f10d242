import { Failure, of, post } from "./api";
import { bdi, button, field, fill, h, mono, setText, type Child } from "./dom";
import { notice, said } from "./dialog";
import { answered, can, nameOf, on, state } from "./store";
import { clean, span } from "./text";
import { to } from "./route";
import type { Question } from "./types";

const unready = 600; // ms in which a new question takes no click: it may have been meant for what was there before

const whatFor: Record<string, string> = { network: "wants to connect to", write: "wants to write", reveal: "wants to open" };

/** keyOf returns what names a question of all sandboxes. */
const keyOf = (q: Question) => q.sandbox + "/" + q.id;

const what = (q: Question) => q.host ?? q.path ?? "";

/** wideness says how much a target allows. */
function wideness(q: Question, target: string, i: number): string {
  if (q.kind === "network") return i === 0 ? "this host and port" : target.startsWith("*.") ? "all hosts below the domain, this port" : "the host, all ports";
  return /\/(\*\*)?$/.test(target) ? "the directory and all below it" : i > 0 ? "all that match" : "only this path";
}

/** card returns what asks one question. */
function card(q: Question): { element: HTMLElement; tick(): void } {
  const targets = q.targets?.length ? q.targets : [what(q)];
  const problem = h("p", { class: "problem", role: "alert" });
  const left = h("span", { class: "left" });
  const name = "t" + keyOf(q);
  const radios = targets.map((_, i) => h("input", { type: "radio", name, value: String(i), id: name + i, checked: i === 0, onchange: () => preview() }));
  const chosen = () => targets[radios.findIndex((r) => r.checked)] ?? targets[0]!;
  const result = h("span", { class: "preview" });
  const typed = h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", oninput: () => preview() });
  const yes: HTMLButtonElement[] = [], no: HTMLButtonElement[] = [];
  let ready = false;
  const preview = () => {
    const i = Math.max(0, radios.findIndex((r) => r.checked)), closed = !ready || (q.secret === true && typed.value !== what(q));
    for (const b of yes) b.disabled = closed;
    yes[0]!.disabled ||= i > 0; // once is for the access itself
    for (const b of no) b.disabled = !ready;
    fill(result, "Yes allows ", bdi(chosen(), "mono strong"), ": " + wideness(q, chosen(), i) + (q.kind === "reveal" ? ", with its content." : "."));
  };
  const answer = (allow: boolean, scope: string) => async () => {
    for (const b of [...yes, ...no]) b.disabled = true;
    fill(problem);
    try {
      const done = await post<{ note?: string }>(of(q.sandbox, "/questions/" + encodeURIComponent(q.id) + "/answer"),
        { allow, scope, ...(allow ? { target: chosen(), ...(q.secret ? { path: typed.value } : {}) } : {}) });
      answered(q);
      if (done.note) notice(done.note);
    } catch (e) {
      if (e instanceof Failure && e.status === 404) {
        answered(q);
        return;
      }
      fill(problem, bdi(said(e)));
      preview();
    }
  };
  const about = clean(what(q), 80);
  yes.push(button("Once", answer(true, "once"), "primary", { "aria-label": "Yes, once: " + about }));
  yes.push(button("This sandbox", answer(true, "sandbox"), "", { "aria-label": "Yes, for this sandbox: " + about }));
  if (can("always")) yes.push(button("Always", answer(true, "always"), "", { "aria-label": "Yes, always: " + about }));
  no.push(button("No", answer(false, "once"), "", { "aria-label": "No: " + about }));
  no.push(button("No, do not ask again", answer(false, "sandbox"), "", { "aria-label": "No, do not ask again: " + about }));
  const asked = [q.count > 1 && q.count + " equal accesses wait", q.recent > 1 && q.recent + " asked in the last minute"].filter(Boolean).join(", ");
  const facts: Child[] = [
    q.command && [h("span", { class: "dim" }, "command "), mono(q.command)],
    q.rule && [h("span", { class: "dim" }, "rule "), mono(q.rule), q.source && h("span", { class: "dim" }, " from ", bdi(q.source))],
    asked && h("span", { class: "dim" }, asked),
  ].filter(Boolean).map((f) => h("span", null, f));
  const element = h("article", { class: "question" + (q.secret ? " secret" : ""), "data-question": keyOf(q) },
    h("h3", null, left, h("a", { href: to("s", q.sandbox) }, bdi(nameOf(q.sandbox))), ": ", mono(q.program || "a program"), " ", whatFor[q.kind] ?? "asks for", " ", bdi(what(q), "mono strong")),
    facts.length > 0 && h("p", { class: "about" }, facts),
    q.secret && h("p", { class: "warning" }, "This reveals a secret to the programs in the sandbox: what they read they can keep, and send where they may connect to."),
    targets.length > 1 && h("fieldset", { class: "targets" }, h("legend", null, "Yes is for"),
      targets.map((t, i) => h("label", { for: name + i }, radios[i], " ", mono(t), h("span", { class: "dim" }, " " + wideness(q, t, i))))),
    q.secret && h("div", { class: "typed" }, field("Type " + clean(what(q), 200) + " to allow it", typed)),
    problem,
    h("div", { class: "actions" },
      h("span", { class: "group", role: "group", "aria-label": "Yes" }, h("span", { class: "dim" }, "Yes:"), yes),
      h("span", { class: "group", role: "group", "aria-label": "No" }, no), result));
  preview();
  setTimeout(() => {
    ready = true;
    preview();
  }, unready);
  return {
    element,
    tick: () => setText(left, " " + span(Date.parse(q.until) - Date.now()) + " left"),
  };
}

/** questions returns the bar that has what waits for an answer. It is the same in each view, and hidden without questions. */
export function questions(): HTMLElement {
  const heading = h("h2", { "aria-live": "polite" }), list = h("div", { class: "list" });
  const bar = h("section", { class: "questions", "aria-label": "Questions", hidden: true }, heading, list);
  const cards = new Map<string, ReturnType<typeof card>>();
  let timer = 0;
  const tick = () => {
    for (const c of cards.values()) c.tick();
  };
  const draw = () => {
    const now = new Set(state.questions.map(keyOf));
    for (const [key, c] of cards) {
      if (!now.has(key)) {
        c.element.remove();
        cards.delete(key);
      }
    }
    for (const q of state.questions) {
      if (cards.has(keyOf(q))) continue;
      const c = card(q);
      cards.set(keyOf(q), c);
      list.append(c.element);
    }
    const n = cards.size;
    bar.hidden = n === 0;
    setText(heading, n === 0 ? "" : n === 1 ? "A question waits" : n + " questions wait");
    document.title = (n ? `(${n}) ` : "") + "wolffia console";
    tick();
    clearInterval(timer);
    if (n) timer = window.setInterval(tick, 1000);
  };
  on("questions", draw);
  return bar;
}
