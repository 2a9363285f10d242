import { Failure } from "./api";
import { bdi, button, field, fill, h, type Child } from "./dom";

/** dialog opens a dialog, which Escape closes. It is removed once closed. */
export function dialog(title: string, ...children: Child[]): HTMLDialogElement {
  const d = h("dialog", { "aria-label": title, onclose: () => d.remove() }, h("h2", null, title), children);
  document.body.append(d);
  d.showModal();
  return d;
}

/**
 * sure asks before something is done. If `typed` is given, something is lost, and the button stays closed until that
 * text is typed. `act` does it; what it says stays in the dialog.
 */
export function sure(title: string, text: Child, does: string, act: () => Promise<unknown>, typed = ""): Promise<boolean> {
  return new Promise((done) => {
    const problem = h("p", { class: "problem", role: "alert" });
    let made = false;
    const go = button(does, async () => {
      go.disabled = true;
      fill(problem);
      try {
        await act();
        made = true;
        d.close();
      } catch (e) {
        fill(problem, bdi(said(e)));
        go.disabled = false;
      }
    }, typed ? "danger" : "primary", typed ? { disabled: true } : { autofocus: true });
    const input = h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", autofocus: true, oninput: () => (go.disabled = input.value !== typed) });
    const form = h("form", { onsubmit: (e: Event) => { e.preventDefault(); if (!go.disabled) go.click(); } },
      h("div", null, text),
      typed && h("div", { class: "typed" }, h("p", null, "Type ", bdi(typed, "mono strong"), " to go on."), field("Name", input)),
      problem,
      h("div", { class: "actions" }, go, button("Cancel", () => d.close())));
    const d = dialog(title, form);
    d.addEventListener("close", () => done(made));
  });
}

/** said returns what an error says. */
export function said(e: unknown): string {
  return e instanceof Failure ? e.message : e instanceof Error ? e.message : String(e);
}

let shown: HTMLElement | undefined;
let timer = 0;

/** notice shows what was done, or what failed, at the bottom of the page. */
export function notice(text: string, failed = false): void {
  if (!shown) {
    shown = h("div", { class: "notice", role: "status", "aria-live": "polite" });
    document.body.append(shown);
  }
  clearTimeout(timer);
  const line = shown;
  fill(line, h("div", { class: failed ? "bad" : "" }, bdi(text), button("Close", () => fill(line), "small")));
  if (!failed) timer = window.setTimeout(() => fill(line), 6000);
}

/** attempt does something and shows what fails. */
export async function attempt(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (e) {
    notice(said(e), true);
    return false;
  }
}
