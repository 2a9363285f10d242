import { bdi, copier, h, mono } from "../dom";
import { nameOf } from "../store";
import { to } from "../route";
import { clock, moment } from "../text";
import type { Denied } from "../types";

const opWords: Record<string, string> = { lookup: "look up", unlink: "delete", mkdir: "make directory" };

/** denial returns one access that was denied, with its rule and what would allow it. `sandbox` is named if it is given. */
export function denial(d: Denied, sandbox = ""): HTMLElement {
  const r = d.refused;
  const n = r?.count ?? d.count ?? 1;
  const head = h("div", { class: "head" },
    h("time", { datetime: d.time, title: moment(d.time) }, clock(d.time)),
    sandbox && h("a", { href: to("s", sandbox, "denied"), class: "from" }, bdi(nameOf(sandbox))));
  const li = (className: string, ...rest: (Node | string | false | undefined)[]) => h("li", { class: "denial " + className }, head, rest.filter(Boolean) as Node[]);
  if (d.dropped) return li("dropped", `${d.dropped.toLocaleString("en")} more were denied so fast that they have no entry.`);
  const program = r?.program || d.command;
  const times = n > 1 && h("span", { class: "times" }, "×" + n.toLocaleString("en"));
  const what = r
    ? h("p", { class: "what" }, h("span", { class: "op net" }, r.op || "connect"), " ", bdi(r.name || r.address, "mono strong"), r.port ? ":" + r.port : "", r.name && r.address ? h("span", { class: "dim" }, " (", bdi(r.address), ")") : "", times || "")
    : h("p", { class: "what" }, h("span", { class: "op" }, opWords[d.op ?? ""] ?? d.op ?? "access"), " ", bdi(d.path || ".", "mono strong"), times || "");
  const why = r ? r.reason : d.why || d.reason;
  const source = d.source && h("span", { class: "dim" }, " from ", bdi(d.source));
  return li(r ? "of-net" : "of-tree", what,
    h("p", { class: "why" }, program ? h("span", null, mono(program), " · ") : "",
      r ? "" : h("span", null, "level ", d.level ?? "none", d.rule ? ", rule " : ", no rule matches", d.rule ? mono(d.rule) : "", source || ""), why ? h("span", null, r ? "" : " · ", bdi(why)) : ""),
    (d.remedy || d.allow || r?.allow) ? h("p", { class: "remedy" }, h("span", { class: "dim" }, "To allow it: "), copier(d.remedy || d.allow || r?.allow || "")) : false);
}
