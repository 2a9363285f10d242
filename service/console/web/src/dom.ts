import { clean, pieces } from "./text";

export type Child = Node | string | number | null | undefined | false | Child[];

type Value = string | number | boolean | null | undefined | ((e: never) => void);

/**
 * h returns a new element. A property that begins with "on" is a listener; others are attributes, without those that are
 * false or absent. Strings are text, never markup.
 */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, props?: Record<string, Value> | null, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === "function") e.addEventListener(name.slice(2), value as EventListener);
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(name, value === true ? "" : String(value));
  }
  append(e, children);
  return e;
}

function append(e: Element, children: Child[]): void {
  for (const c of children) {
    if (Array.isArray(c)) append(e, c);
    else if (c !== null && c !== undefined && c !== false) e.append(c instanceof Node ? c : String(c));
  }
}

/** fill replaces what an element has. */
export function fill(e: Element, ...children: Child[]): void {
  e.replaceChildren();
  append(e, children);
}

/** setText changes a text only if it differs, so that nothing is laid out again for nothing. */
export function setText(e: Element, text: string): void {
  if (e.textContent !== text) e.textContent = text;
}

/** bdi returns a text of a sandbox, apart from the direction of what is around it, with what would not be seen escaped. */
export function bdi(text: string, className?: string, keep = ""): HTMLElement {
  const e = h("bdi", className ? { class: className } : null);
  for (const p of pieces(text.length > 4096 ? text.slice(0, 4096) + "…" : text, keep)) {
    e.append(p.odd ? h("span", { class: "odd", title: "a character that is not shown" }, p.text) : p.text);
  }
  return e;
}

/** mono is bdi in the font of code. */
export function mono(text: string): HTMLElement {
  return bdi(text, "mono");
}

/** button returns a button. Its text is what it does. */
export function button(text: string, act: (e: MouseEvent) => void, className = "", more: Record<string, Value> = {}): HTMLButtonElement {
  return h("button", { type: "button", class: className || null, onclick: act, ...more }, text);
}

/** copier returns a text that is a command, and a button that copies it. */
export function copier(text: string): HTMLElement {
  const b = button("Copy", () => {
    void navigator.clipboard.writeText(text).then(
      () => setText(b, "Copied"),
      () => setText(b, "Not copied"),
    );
  }, "small", { "aria-label": "Copy " + clean(text, 200) });
  return h("span", { class: "copier" }, h("code", null, bdi(text)), b);
}

let ids = 0;

/** field returns a label with its input. */
export function field(label: string, input: HTMLElement, className = ""): HTMLElement {
  input.id ||= "f" + ++ids;
  return h("div", { class: "field " + className }, h("label", { for: input.id }, label), input);
}

/** facts returns pairs of a term and what it is. Those without a value are left out. */
export function facts(...pairs: [string, Child][]): HTMLElement {
  return h("dl", { class: "facts" }, pairs.filter(([, v]) => v !== "" && v !== null && v !== undefined && v !== false).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))));
}

/** table returns a table with a heading for each column. `label` is for readers of the screen. */
export function table(label: string, className: string, heads: string[], body: HTMLElement): HTMLTableElement {
  return h("table", { class: className, "aria-label": label }, h("thead", null, h("tr", null, heads.map((t) => h("th", { scope: "col" }, t)))), body);
}

/** empty returns the line of a list that has nothing. */
export function empty(text: string): HTMLElement {
  return h("p", { class: "empty" }, text);
}
