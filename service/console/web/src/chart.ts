import { h } from "./dom";

const ns = "http://www.w3.org/2000/svg";

function svg(tag: string, attributes: Record<string, string>): SVGElement {
  const e = document.createElementNS(ns, tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
}

/** A Chart is a line over time. Gaps are where nothing is known. */
export interface Chart {
  element: SVGElement;
  /** draw shows values, the oldest first, of which there are at most `slots`. */
  draw(values: (number | null)[], top: number): void;
}

/** chart returns a chart with room for so many values. `lines` may be 2: draw then takes the second as more. */
export function chart(className: string, width: number, height: number, slots: number): Chart & { draw2(v: (number | null)[], top: number): void } {
  const area = svg("path", { class: "area" });
  const line = svg("path", { class: "line" });
  const second = svg("path", { class: "line second" });
  const root = svg("svg", { class: "chart " + className, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true", width: String(width), height: String(height) });
  root.append(area, second, line);
  const last = new Map<SVGElement, string>();
  const set = (e: SVGElement, d: string) => {
    if (last.get(e) !== d) e.setAttribute("d", d);
    last.set(e, d);
  };
  const path = (values: (number | null)[], top: number): [string, string] => {
    const step = width / (slots - 1), from = slots - values.length;
    let d = "", a = "", begun = false, lastX = "";
    const close = () => {
      if (begun) a += `L${lastX} ${height}Z`;
      begun = false;
    };
    values.forEach((v, i) => {
      if (v === null) return close();
      const x = ((from + i) * step).toFixed(1), y = (height - 1 - (height - 2) * Math.min(1, top > 0 ? v / top : 0)).toFixed(1);
      d += (begun ? "L" : "M") + x + " " + y;
      a += begun ? `L${x} ${y}` : `M${x} ${height}L${x} ${y}`;
      begun = true;
      lastX = x;
    });
    close();
    return [d, a];
  };
  return {
    element: root,
    draw(values, top) {
      const [d, a] = path(values, top);
      set(line, d);
      set(area, a);
    },
    draw2(values, top) {
      set(second, path(values, top)[0]);
    },
  };
}

/** top returns what the upper edge of a chart stands for: a limit, or a round number above all values. */
export function top(values: (number | null)[], least: number): number {
  let most = least;
  for (const v of values) if (v !== null && v > most) most = v;
  return most * 1.1;
}

/** meter returns a bar that shows a part of a whole. */
export function meter(): { element: HTMLElement; show(part: number | null, whole: number): void } {
  const bar = h("span", { class: "bar" });
  const element = h("span", { class: "meter", "aria-hidden": "true" }, bar);
  return {
    element,
    show(part, whole) {
      element.hidden = part === null || whole <= 0;
      if (element.hidden) return;
      const f = Math.min(1, part! / whole);
      bar.style.width = (100 * f).toFixed(1) + "%";
      element.classList.toggle("high", f > 0.9);
    },
  };
}

/** histogram returns bars over time, for each slot a number. */
export function histogram(values: number[], labels: string[]): SVGElement {
  const width = 600, height = 48, most = Math.max(1, ...values), step = width / Math.max(1, values.length);
  const root = svg("svg", { class: "chart histogram", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  values.forEach((v, i) => {
    if (v === 0) return;
    const high = Math.max(2, (height * v) / most);
    const bar = svg("rect", { x: (i * step + 0.5).toFixed(1), width: Math.max(1, step - 1).toFixed(1), y: (height - high).toFixed(1), height: high.toFixed(1) });
    const title = svg("title", {});
    title.textContent = labels[i] ?? "";
    bar.append(title);
    root.append(bar);
  });
  return root;
}
