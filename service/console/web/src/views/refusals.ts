import { get, of, query } from "../api";
import { empty, fill, h, setText } from "../dom";
import { attempt } from "../dialog";
import { on, state } from "../store";
import { count } from "../text";
import type { Denied } from "../types";
import type { View } from "../view";
import { denial } from "./denials";

const mostSandboxes = 20; // whose refusals from before are shown
const mostShown = 300;

/** refusals shows what was refused to all sandboxes, the newest first, and goes on as it happens. */
export const refusals: View = (main) => {
  const list = h("ul", { class: "denials", "aria-label": "What was refused" }), nothing = empty("Nothing was refused."), total = h("p", { class: "total", role: "status" });
  main.append(h("div", { class: "bar" }, h("h1", null, "Refusals"), total), list, nothing);
  let before: { sandbox: string; denied: Denied }[] = [];
  const key = (d: { sandbox: string; denied: Denied }) => d.sandbox + d.denied.time + (d.denied.path ?? d.denied.refused?.name ?? "");
  const draw = () => {
    const seen = new Set<string>();
    const all = [...state.denied, ...before].filter((d) => !seen.has(key(d)) && seen.add(key(d)))
      .sort((a, b) => Date.parse(b.denied.time) - Date.parse(a.denied.time));
    fill(list, all.slice(0, mostShown).map((d) => denial(d.denied, d.sandbox)));
    nothing.hidden = all.length > 0;
    setText(total, all.length ? count(all.length, "entry") : "");
  };
  let pending = 0;
  const off = on("denied", () => {
    pending ||= window.setTimeout(() => {
      pending = 0;
      draw();
    }, 200);
  });
  const load = async () => {
    const some = [...state.sandboxes.values()].filter((s) => s.denied === null || s.denied === undefined || s.denied + (s.refused ?? 0) > 0).slice(0, mostSandboxes);
    const lists = await Promise.all(some.map(async (s) => (await get<{ denied: Denied[] }>(of(s.id, "/denied" + query({ limit: 50 })))).denied.map((denied) => ({ sandbox: s.id, denied })).reverse()));
    before = lists.flat();
    draw();
  };
  draw();
  let loaded = false;
  const first = () => {
    if (loaded || state.sandboxes.size === 0) return;
    loaded = true;
    void attempt(load);
  };
  first();
  const offBoxes = on("sandboxes", first);
  return { close: () => { off(); offBoxes(); clearTimeout(pending); } };
};
