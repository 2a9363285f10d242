import { bdi, empty, fill, h, setText } from "../dom";
import { chart, meter, top } from "../chart";
import { shortcuts } from "../keys";
import { go, to } from "../route";
import { on, state } from "../store";
import { bytes, clean, cores, rate, span } from "../text";
import type { Sample, Sandbox } from "../types";
import type { View } from "../view";

const slots = 60;

/** series returns one number of samples. */
export function series(list: Sample[], of: (s: Sample) => number | null): (number | null)[] {
  return list.map(of);
}

/** A cell has a chart, a value, and a bar where there is a limit. */
function cell(className: string, label: string) {
  const value = h("span", { class: "value" }), limit = h("span", { class: "dim" });
  const c = chart("spark", 96, 20, slots), m = meter(), dash = h("span", { class: "dim" }, "–");
  const some = h("div", null, c.element, h("span", { class: "figures" }, value, limit), m.element);
  const element = h("td", { class: "number " + className, "data-label": label }, some, dash);
  m.show(null, 0);
  return {
    element, value, limit, chart: c, meter: m,
    /** known shows the cell, or a dash where nothing is known. */
    known(is: boolean) {
      some.hidden = !is;
      dash.hidden = is;
      element.classList.toggle("unknown", !is);
    },
  };
}

/** badge returns a number that leads to what it counts; nothing if it is zero. */
function badge(className: string): { element: HTMLAnchorElement; show(n: number, text: string, href: string): void } {
  const element = h("a", { class: "badge " + className, hidden: true });
  return {
    element,
    show(n, text, href) {
      element.hidden = n === 0;
      if (n === 0) return;
      setText(element, text);
      if (element.getAttribute("href") !== href) element.setAttribute("href", href);
    },
  };
}

function row(s: Sandbox) {
  const link = h("a", { class: "name", href: to("s", s.id) });
  const owner = h("span", { class: "sub" });
  const dot = h("span", { class: "dot", "aria-hidden": "true" }), word = h("span"), age = h("span", { class: "sub" }), ends = h("span", { class: "sub" });
  const doing = h("span", { class: "doing" });
  const cpu = cell("cpu", "Processors"), memory = cell("memory", "Memory"), disk = cell("disk", "Disk"), net = cell("net", "Network");
  const refused = badge("refused"), changed = badge("changed");
  disk.chart.element.remove();
  const element = h("tr", { "data-id": s.id },
    h("th", { scope: "row", class: "who" }, link, owner),
    h("td", { class: "state", "data-label": "State" }, h("span", { class: "word" }, dot, word), age, ends),
    h("td", { class: "what", "data-label": "Doing" }, doing),
    cpu.element, memory.element, disk.element, net.element,
    h("td", { class: "counts" }, refused.element, " ", changed.element));
  let said = "";
  const draw = (s: Sandbox) => {
    const text = JSON.stringify([s.name, s.owner, s.codebase, s.state, s.running, s.reason]);
    if (text !== said) {
      said = text;
      fill(link, bdi(s.name || s.id));
      fill(owner, bdi([s.name ? s.id : "", s.owner, s.codebase].filter(Boolean).join(" · ")));
      owner.title = clean(s.codebase || s.owner, 300);
      element.dataset["state"] = s.state;
      setText(word, s.state);
      fill(doing, s.running?.length ? s.running.map((c) => h("code", { title: clean(c, 300) }, bdi(c))) : h("span", { class: "dim" }, s.state !== "running" ? bdi(s.reason || "–") : s.running ? "idle" : "–"));
    }
    setText(age, span(Date.now() - s.createdAt) + " old");
    setText(ends, s.expiresAt ? "ends in " + span(s.expiresAt - Date.now()) : "");
    const d = (s.denied ?? 0) + (s.refused ?? 0);
    refused.show(d, d.toLocaleString("en") + " refused", to("s", s.id, "denied"));
    changed.show(s.cow ? 1 : 0, "changes", to("s", s.id, "changes"));
  };
  const samples = (s: Sandbox) => {
    const now = s.now, list = state.history.get(s.id) ?? [], limits = s.limits;
    const lives = s.state === "running" || s.state === "paused";
    cpu.known(lives && now !== null && now.cpu !== null);
    memory.known(lives && now !== null && now.memory !== null);
    disk.known(now !== null && now.disk !== null);
    net.known(lives);
    setText(cpu.value, cores(now?.cpu));
    setText(cpu.limit, limits.cpus ? " of " + limits.cpus : "");
    const c = series(list, (x) => x.cpu);
    cpu.chart.draw(c, limits.cpus || top(c, 0.5));
    setText(memory.value, bytes(now?.memory));
    setText(memory.limit, limits.memory ? " of " + bytes(limits.memory) : "");
    const m = series(list, (x) => x.memory);
    memory.chart.draw(m, limits.memory || top(m, 64 << 20));
    memory.meter.show(now?.memory ?? null, limits.memory);
    setText(disk.value, bytes(now?.disk));
    setText(disk.limit, limits.disk ? " of " + bytes(limits.disk) : "");
    disk.meter.show(now?.disk ?? null, limits.disk);
    const known = now && now.received !== null;
    setText(net.value, known ? "↓ " + rate(now.received) : s.network === "none" || !s.network ? "none" : s.network);
    net.chart.element.toggleAttribute("hidden", !known);
    setText(net.limit, known ? " ↑ " + rate(now.sent) : "");
    const r = series(list, (x) => x.received), t = series(list, (x) => x.sent), most = top([...r, ...t], 1024);
    net.chart.draw(r, most);
    net.chart.draw2(t, most);
  };
  draw(s);
  return { element, draw, samples };
}

/** matches reports whether a sandbox has all words. */
function matches(s: Sandbox, words: string[]): boolean {
  const text = [s.id, s.name, s.owner, s.codebase, s.state, s.backend, s.image, ...(s.running ?? [])].join(" ").toLowerCase();
  return words.every((w) => text.includes(w));
}

/** list shows all sandboxes. */
export const list: View = (main) => {
  const rows = new Map<string, ReturnType<typeof row>>();
  const seen = new Set<string>(); // rows that are on the screen: others are drawn when they come there
  const measure = (id: string) => {
    const s = state.sandboxes.get(id);
    if (s && seen.has(id)) rows.get(id)?.samples(s);
  };
  const watcher = new IntersectionObserver((changes) => {
    for (const c of changes) {
      const id = (c.target as HTMLElement).dataset["id"]!;
      if (c.isIntersecting) seen.add(id);
      else seen.delete(id);
      measure(id);
    }
  }, { rootMargin: "200px" });
  const total = h("p", { class: "total", role: "status" });
  const filter = h("input", { type: "search", placeholder: "Filter: name, owner, state, command", "aria-label": "Filter the sandboxes", autocomplete: "off", spellcheck: "false", oninput: () => draw() });
  const body = h("tbody");
  const heads = ["Sandbox", "State", "Doing", "Processors", "Memory", "Disk", "Network", "To review"];
  const t = h("table", { class: "sandboxes", "aria-label": "Sandboxes" }, h("thead", null, h("tr", null, heads.map((x) => h("th", { scope: "col" }, x)))), body);
  const nothing = empty("");
  main.append(h("div", { class: "bar" }, h("h1", null, "Sandboxes"), total, filter), t, nothing);

  let marked = false;
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = [...state.sandboxes.values()].filter((s) => matches(s, words));
    const wanted = new Set(shown.map((s) => s.id));
    for (const [id, r] of rows) {
      if (!wanted.has(id)) r.element.remove();
      if (!state.sandboxes.has(id)) {
        watcher.unobserve(r.element);
        rows.delete(id);
        seen.delete(id);
      }
    }
    let at: Element | null = body.firstElementChild;
    for (const s of shown) {
      let r = rows.get(s.id);
      if (!r) {
        rows.set(s.id, (r = row(s)));
        watcher.observe(r.element);
      }
      if (r.element === at) at = at.nextElementSibling;
      else body.insertBefore(r.element, at);
    }
    summary(shown.length);
    if (shown.length && !marked) requestAnimationFrame(() => performance.mark("listed")); // for who measures it
    marked ||= shown.length > 0;
  };
  const summary = (shown: number) => {
    const by: Record<string, number> = {};
    for (const s of state.sandboxes.values()) by[s.state] = (by[s.state] ?? 0) + 1;
    const all = state.sandboxes.size;
    setText(total, (shown < all ? shown + " of " : "") + all + (all ? ": " + Object.entries(by).map(([k, n]) => n + " " + k).join(", ") : ""));
    t.hidden = shown === 0;
    nothing.hidden = shown > 0;
    setText(nothing, state.link === "connecting" ? "Connecting…" : all ? "No sandbox matches." : "No sandboxes. Start one: wolffia create --name box, or wolffia run -- COMMAND.");
  };
  const move = (by: number) => {
    const links = [...body.querySelectorAll<HTMLElement>("a.name")];
    const i = links.indexOf(document.activeElement as HTMLElement);
    links[Math.max(0, Math.min(links.length - 1, i < 0 ? 0 : i + by))]?.focus();
  };
  shortcuts([
    { keys: "/", text: "filter", act: () => filter.focus() },
    { keys: "j", text: "next sandbox", act: () => move(1) },
    { keys: "k", text: "sandbox before", act: () => move(-1) },
  ]);
  filter.addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      const id = body.querySelector<HTMLElement>("tr")?.dataset["id"];
      if (id) go("s", id);
    } else if (e.key === "Escape") {
      filter.value = "";
      draw();
      filter.blur();
    }
  });
  const offs = [
    on("sandboxes", draw),
    on("sandbox", (id) => {
      const s = state.sandboxes.get(id!);
      if (s) rows.get(id!)?.draw(s);
      measure(id!);
      draw();
    }),
    on("samples", () => {
      if (document.hidden) return;
      for (const id of seen) {
        const s = state.sandboxes.get(id);
        if (s) rows.get(id)?.draw(s);
        measure(id);
      }
    }),
    on("link", () => summary(rows.size)),
  ];
  draw();
  return { close: () => { watcher.disconnect(); offs.forEach((off) => off()); } };
};
