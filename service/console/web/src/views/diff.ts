import { h } from "../dom";
import { pieces } from "../text";
import type { Diff, Hunk, Line } from "../types";

/** A Pair is one row of both sides. */
interface Pair {
  left?: Line & { n: number };
  right?: Line & { n: number };
}

/** pairs puts the lines of a hunk side by side: what was removed beside what was added in its place. */
export function pairs(hunk: Hunk): Pair[] {
  const found: Pair[] = [];
  let o = hunk.oldStart, n = hunk.newStart, minus: Pair["left"][] = [], plus: Pair["right"][] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(minus.length, plus.length); i++) {
      const p: Pair = {};
      if (minus[i]) p.left = minus[i]!;
      if (plus[i]) p.right = plus[i]!;
      found.push(p);
    }
    minus = [];
    plus = [];
  };
  for (const l of hunk.lines) {
    if (l.op === "-") minus.push({ ...l, n: o++ });
    else if (l.op === "+") plus.push({ ...l, n: n++ });
    else {
      flush();
      found.push({ left: { ...l, n: o++ }, right: { ...l, n: n++ } });
    }
  }
  flush();
  return found;
}

/** differing returns where two lines begin and end to differ: what both have before, and behind. */
function differing(a: string, b: string): [number, number] {
  let from = 0, back = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  while (back < a.length - from && back < b.length - from && a.at(-1 - back) === b.at(-1 - back)) back++;
  return [from, back];
}

/** text returns a line, with what differs from the other side marked. */
function text(line: Line, other: Line | undefined): Node[] {
  const put = (s: string, className: string) => {
    const span = h(className ? "mark" : "span");
    for (const p of pieces(s, "\t")) span.append(p.odd ? h("span", { class: "odd" }, p.text) : p.text);
    return span;
  };
  const end = line.noEnd ? [h("span", { class: "dim" }, " (no end of line)")] : [];
  if (!other || line.op === " ") return [put(line.text, ""), ...end];
  const [from, back] = differing(line.text, other.text);
  if (from + back === 0 || from + back < line.text.length / 4) return [put(line.text, ""), ...end];
  return [put(line.text.slice(0, from), ""), put(line.text.slice(from, line.text.length - back), "mark"), put(line.text.slice(line.text.length - back), ""), ...end];
}

/** sides returns a difference with both sides beside each other. choose is called when a hunk is chosen, or not any more. */
export function sides(diff: Diff, choose: (hunk: number, on: boolean) => void): HTMLElement {
  const body = (diff.hunks ?? []).flatMap((k, i) => {
    const label = `lines ${k.oldStart}–${k.oldStart + Math.max(0, k.oldLines - 1)} → ${k.newStart}–${k.newStart + Math.max(0, k.newLines - 1)}`;
    const box = h("input", { type: "checkbox", "aria-label": `Choose hunk ${i + 1}`, onchange: () => choose(i, box.checked) });
    const side = (l: (Line & { n: number }) | undefined, other: Line | undefined) => [
      h("td", { class: "n" }, l ? String(l.n) : ""),
      h("td", { class: "code " + (l ? { "-": "minus", "+": "plus", " ": "" }[l.op] : "none") }, l ? h("span", { class: "sign" }, l.op) : "", l ? h("bdi", null, text(l, other)) : ""),
    ];
    return [
      h("tr", { class: "hunk" }, h("th", { colspan: 4, scope: "rowgroup" }, diff.canHunks && (diff.hunks?.length ?? 0) > 1 ? h("label", null, box, ` Hunk ${i + 1}: `, label) : label)),
      ...pairs(k).map((p) => h("tr", { class: p.left && p.right && p.left.op === " " ? "same" : "differs" }, side(p.left, p.right), side(p.right, p.left))),
    ];
  });
  return h("div", { class: "sides", tabindex: "0", role: "region", "aria-label": "Difference, old and new" }, h("table", { class: "code-table" }, h("colgroup", null, ["n", "", "n", ""].map((c) => h("col", c ? { class: c } : null))), h("thead", { class: "hidden" }, h("tr", null, ["Line", "Host", "Line", "Sandbox"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", null, body)));
}

