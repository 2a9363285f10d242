import { get, of, query } from "../api";
import { chart, top } from "../chart";
import { attempt } from "../dialog";
import { bdi, empty, facts, fill, h, mono, setText } from "../dom";
import { to } from "../route";
import { on, state } from "../store";
import { bytes, cores, moment, rate, span } from "../text";
import type { Denied, Details, Sample } from "../types";
import { denial } from "./denials";
import type { Tab } from "./sandbox";

const slots = 360;

/** graph returns a chart with its title and value. */
function graph(title: string) {
  const value = h("span", { class: "value" }), limit = h("span", { class: "dim" }), c = chart("large", 360, 64, slots);
  return { element: h("section", { class: "graph", "aria-label": title }, h("h3", null, title, h("span", { class: "figures" }, value, limit)), c.element), value, limit, chart: c };
}

/** overview shows what a sandbox is, does and was refused. */
export const overview: Tab = (main, box) => {
  const cpu = graph("Processors"), memory = graph("Memory"), disk = graph("Disk"), net = graph("Network");
  const about = h("div"), doing = h("div"), refused = h("ul", { class: "denials" }), nothing = empty("Nothing was refused.");
  let samples: Sample[] = [], details: Details | undefined, denials: Denied[] = [], closed = false;
  main.append(
    h("div", { class: "graphs" }, cpu.element, memory.element, disk.element, net.element),
    h("div", { class: "columns" },
      h("section", null, h("h2", null, "Now"), doing, h("h2", null, "Settings"), about),
      h("section", null, h("h2", null, "Refused last"), refused, nothing, h("p", null, h("a", { href: to("s", box.id, "denied") }, "All refusals")))));
  const draw = () => {
    const s = box.now(), now = s.now, of = (f: (x: Sample) => number | null) => samples.map(f);
    const c = of((x) => x.cpu), m = of((x) => x.memory), d = of((x) => x.disk), r = of((x) => x.received), t = of((x) => x.sent);
    setText(cpu.value, cores(now?.cpu));
    setText(cpu.limit, s.limits.cpus ? " of " + s.limits.cpus : "");
    cpu.chart.draw(c, s.limits.cpus || top(c, 0.5));
    setText(memory.value, bytes(now?.memory));
    setText(memory.limit, s.limits.memory ? " of " + bytes(s.limits.memory) : "");
    memory.chart.draw(m, s.limits.memory || top(m, 64 << 20));
    setText(disk.value, bytes(now?.disk));
    setText(disk.limit, s.limits.disk ? " of " + bytes(s.limits.disk) : "");
    disk.chart.draw(d, s.limits.disk || top(d, 1 << 20));
    const known = now && now.received !== null, most = top([...r, ...t], 1024);
    setText(net.value, known ? "↓ " + rate(now.received) : s.network || "none");
    setText(net.limit, known ? " ↑ " + rate(now.sent) : "");
    net.chart.draw(r, most);
    net.chart.draw2(t, most);
  };
  const settings = () => {
    const s = box.now(), x = details;
    fill(doing, s.running?.length ? h("ul", { class: "plain" }, s.running.map((c) => h("li", null, mono(c)))) : h("p", { class: "dim" }, s.state === "running" ? (s.running ? "No command runs." : "It runs.") : "It does not run."));
    fill(about, facts(
      ["codebase", s.codebase && mono(s.codebase)], ["inside at", s.mountPoint && mono(s.mountPoint)],
      ["changes", s.cow ? "a copy: nothing on the host changes until you apply it" : "the host's directory itself"],
      ["runtime", s.backend + (s.filter ? ", filter " + s.filter : "") + (s.root ? ", root inside" : "")], ["image", s.image && mono(s.image)],
      ["network", s.network || "none"], ["names", x?.allow?.length ? h("ul", { class: "plain" }, x.allow.map((a) => h("li", null, mono(a)))) : ""],
      ["ports", x?.publish?.length ? x.publish.map((p) => h("div", { class: "mono" }, `${p.address}:${p.port} → ${p.inside}`)) : ""],
      ["mounts", x?.mounts?.length ? x.mounts.map((m) => h("div", null, mono((m.source ? m.source + " → " : "") + m.target), m.writable ? "" : " read-only")) : ""],
      ["user", x?.user && bdi(x.user)], ["processes", s.limits.pids ? "at most " + s.limits.pids : ""],
      ["created", moment(s.createdAt)], ["ends", s.expiresAt ? `${moment(s.expiresAt)}, in ${span(s.expiresAt - Date.now())}` : ""], ["idle limit", s.idleSeconds ? span(s.idleSeconds * 1000) : ""],
      ["metadata", x?.metadata && Object.keys(x.metadata).length ? Object.entries(x.metadata).map(([k, v]) => h("div", null, mono(k + "=" + v))) : ""]));
  };
  const last = () => {
    fill(refused, denials.slice(0, 8).map((d) => denial(d)));
    nothing.hidden = denials.length > 0;
  };
  const load = () => attempt(async () => {
    const [x, h, d] = await Promise.all([
      get<Details>(of(box.id)), get<{ samples: Sample[] }>(of(box.id, "/history")),
      get<{ denied: Denied[] }>(of(box.id, "/denied" + query({ limit: 8 }))),
    ]);
    if (closed) return;
    details = x;
    samples = h.samples ?? [];
    denials = (d.denied ?? []).reverse();
    settings();
    draw();
    last();
  });
  settings();
  draw();
  last();
  void load();
  const offs = [
    on("samples", () => {
      const now = box.now()?.now;
      if (!now) return;
      if (now.time > (samples.at(-1)?.time ?? 0)) samples.push(now);
      if (samples.length > slots) samples.shift();
      if (!document.hidden) draw();
    }),
    on("sandbox", (id) => id === box.id && settings()),
    on("denied", (id) => {
      const newest = state.denied[0];
      if (id !== box.id || !newest) return;
      denials.unshift(newest.denied);
      last();
    }),
  ];
  return { close: () => { closed = true; offs.forEach((off) => off()); } };
};
