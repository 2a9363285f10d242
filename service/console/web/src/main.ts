import { setToken, takeToken, type Failure } from "./api";
import { button, field, fill, h, setText } from "./dom";
import { said } from "./dialog";
import { always, help, listen, shortcuts } from "./keys";
import { questions } from "./questions";
import { go, place, to } from "./route";
import { begin, follow, on, state } from "./store";
import { defineStyle } from "./style";
import { audit } from "./views/audit";
import { list } from "./views/list";
import { refusals } from "./views/refusals";
import { sandbox } from "./views/sandbox";
import type { Closer } from "./view";

/** login asks for the key, and begins again with it. */
function login(problem = ""): void {
  const input = h("input", { type: "password", autocomplete: "off", autofocus: true, required: true });
  fill(document.body, h("main", { class: "login" },
    h("h1", null, "wolffia console"),
    h("form", { onsubmit: (e: Event) => { e.preventDefault(); setToken(input.value.trim()); void start(); } },
      h("p", null, "Enter an API key of this service, or open the address that wolffia console printed. A key stays in this tab."),
      field("API key", input),
      problem && h("p", { class: "problem", role: "alert" }, problem),
      h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Open")))));
  input.focus();
}

/** linkState returns the word that says whether events come. */
function linkState(): HTMLElement {
  const e = h("span", { class: "linkstate", role: "status" });
  const draw = () => {
    e.dataset["link"] = state.link;
    setText(e, { connecting: "connecting", live: "live", lost: "no connection: trying again" }[state.link]);
  };
  on("link", draw);
  draw();
  return e;
}

/** shell shows what all views have around them. */
function shell(): void {
  const main = h("main", { id: "main", tabindex: "-1" });
  const links = [["", "Sandboxes"], ["refused", "Refusals"], ["audit", "Audit"]] as const;
  const nav = h("nav", { "aria-label": "Views" }, links.map(([view, text]) => h("a", { href: to(view), "data-view": view }, text)));
  const about = state.about!;
  const who = about.mode === "local" ? "this machine" : about.all ? "all owners" : about.owner || about.key;
  fill(document.body,
    h("a", { class: "skip", href: "#main", onclick: (e: Event) => { e.preventDefault(); main.focus(); } }, "To the content"),
    h("header", { class: "top" }, h("a", { class: "brand", href: to("") }, h("img", { src: "icon.svg", alt: "", width: 18, height: 18 }), "wolffia"), nav,
      h("span", { class: "side" }, linkState(), h("bdi", { class: "dim who", title: "wolffia " + about.version }, who), button("Keys ?", help, "small", { "aria-label": "Keys" }))),
    questions(), main);

  let close: Closer | undefined, shown = "";
  const show = () => {
    const p = place();
    for (const a of nav.querySelectorAll("a")) {
      const is = a.dataset["view"] === (p.view === "s" ? "" : p.view);
      if (is) a.setAttribute("aria-current", "page");
      else a.removeAttribute("aria-current");
    }
    const key = p.view + "/" + p.id;
    if (key === shown && close?.moved?.(p)) return;
    shown = key;
    close?.close();
    close = undefined;
    shortcuts([]);
    fill(main);
    const view = { s: sandbox, refused: refusals, audit }[p.view] ?? list;
    close = view(main, p);
    window.scrollTo(0, 0);
  };
  window.addEventListener("hashchange", show);
  show();
}

let begun = false;

/** start shows the page, or asks for a key. */
async function start(): Promise<void> {
  try {
    await begin();
  } catch (e) {
    const unknown = (e as Failure).status === 401;
    login(unknown ? (sessionStorage.length ? "The key is not valid here." : "") : said(e));
    if (unknown) setToken("");
    return;
  }
  if (begun) {
    location.reload(); // with the new key, from the start
    return;
  }
  begun = true;
  void follow(() => login("The key is not valid any more."));
  always("?", "this list", help);
  always("g s", "go to the sandboxes", () => go(""));
  always("g r", "go to the refusals", () => go("refused"));
  always("g a", "go to the audit log", () => go("audit"));
  always("q", "go to the first question", () => document.querySelector<HTMLElement>(".question button:not(:disabled)")?.focus());
  listen();
  shell();
}

takeToken();
defineStyle();
void start();
