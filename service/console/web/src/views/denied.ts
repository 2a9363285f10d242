import { get, of, query } from "../api";
import { attempt } from "../dialog";
import { empty, fill, h, setText } from "../dom";
import { on, state } from "../store";
import { count } from "../text";
import type { Denied } from "../types";
import { denial } from "./denials";
import type { Tab } from "./sandbox";

const limit = 200;

/** denied shows what the rules and the network refused to one sandbox, the newest first. */
export const denied: Tab = (main, box) => {
  const list = h("ul", { class: "denials", "aria-label": "What was refused" }), nothing = empty("Nothing was refused."), more = h("p", { class: "dim" });
  const kind = h("select", { "aria-label": "Kind of refusal", onchange: () => draw() }, h("option", { value: "" }, "files and network"), h("option", { value: "tree" }, "files"), h("option", { value: "net" }, "network"));
  main.append(h("div", { class: "bar" }, h("h2", null, "Refusals"), more, kind), list, nothing);
  let all: Denied[] = [], loaded = false;
  const draw = () => {
    const some = all.filter((d) => !kind.value || (kind.value === "net") === (d.refused !== undefined));
    fill(list, some.map((d) => denial(d)));
    nothing.hidden = some.length > 0 || !loaded;
  };
  void attempt(async () => {
    const r = await get<{ denied: Denied[] | null; before: number }>(of(box.id, "/denied" + query({ limit })));
    all = [...all, ...(r.denied ?? []).reverse()];
    loaded = true;
    if (r.before) setText(more, count(r.before, "older entry") + ": wolffia audit " + box.id);
    draw();
  });
  const off = on("denied", (id) => {
    const newest = state.denied[0];
    if (id !== box.id || !newest || !loaded) return;
    all.unshift(newest.denied);
    if (all.length > 2 * limit) all.length = limit;
    list.prepend(denial(newest.denied));
    nothing.hidden = true;
  });
  return { close: off };
};
