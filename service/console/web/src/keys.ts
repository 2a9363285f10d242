import { button, h } from "./dom";
import { dialog } from "./dialog";

interface Key {
  keys: string; // "?", "g s": one after the other
  text: string;
  act: () => void;
}

const stored = "wolffia.keys";
const common: Key[] = [];
let local: Key[] = [];
let first = ""; // of two

/** always adds a shortcut that each view has. */
export function always(keys: string, text: string, act: () => void): void {
  common.push({ keys, text, act });
}

/** shortcuts sets those of the view that is shown, or adds some to them. */
export function shortcuts(list: Key[], more = false): void {
  local = more ? [...local.filter((k) => !list.some((l) => l.keys === k.keys)), ...list] : list;
}

/** enabled reports whether single keys do something: who types by voice turns them off. */
function enabled(): boolean {
  return localStorage.getItem(stored) !== "off";
}

function takesText(e: EventTarget | null): boolean {
  return e instanceof HTMLElement && (e.matches("input, textarea, select, [contenteditable]") || e.closest(".xterm, dialog") !== null);
}

/** help shows all shortcuts. */
export function help(): void {
  if (document.querySelector("dialog[open]")) return;
  const rows = (list: Key[]) => list.map((k) => h("div", null, h("dt", null, k.keys.split(" ").map((c) => h("kbd", null, c))), h("dd", null, k.text)));
  const on = h("input", { type: "checkbox", id: "keys-on", checked: enabled(), onchange: () => localStorage.setItem(stored, on.checked ? "on" : "off") });
  const d = dialog("Keys",
    h("dl", { class: "keys" }, rows(common), rows(local), rows([
      { keys: "Tab", text: "next thing; Shift Tab: the one before", act: () => {} },
      { keys: "F6", text: "leave the terminal", act: () => {} },
      { keys: "Esc", text: "close a dialog", act: () => {} },
    ])),
    h("p", null, on, " ", h("label", { for: "keys-on" }, "Keys without Ctrl do this")),
    h("div", { class: "actions" }, button("Close", () => d.close(), "primary", { autofocus: true })));
}

/** listen begins to act on keys. */
export function listen(): void {
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || takesText(e.target) || !enabled() || document.querySelector("dialog[open]")) return;
    const all = [...local, ...common], typed = first ? first + " " + e.key : e.key;
    const found = all.find((k) => k.keys === typed);
    first = "";
    if (found) {
      e.preventDefault();
      found.act();
    } else if (all.some((k) => k.keys.startsWith(e.key + " "))) first = e.key;
  });
}
