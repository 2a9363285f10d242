import { get, of, post, query } from "../api";
import { attempt } from "../dialog";
import { bdi, button, empty, fill, h, mono, setText } from "../dom";
import { clean, clock, fromBase64, pieces, span } from "../text";
import type { Job, Part } from "../types";
import type { Tab } from "./sandbox";

const again = 1000; // ms between two looks at a job that runs and is shown
const mostShown = 512 << 10; // characters of output

/** output returns a place for the text of a stream, of which the end is kept. */
function output(label: string) {
  const text = h("pre", { class: "output", tabindex: "0", "aria-label": label });
  let length = 0, next: number | undefined;
  return {
    element: h("section", null, h("h3", null, label), text),
    next: () => next,
    add(p: Part) {
      if (next === undefined && p.from > 0) text.append(h("span", { class: "dim" }, `… ${p.from} bytes before\n`));
      else if (next !== undefined && p.from > next) text.append(h("span", { class: "dim" }, `\n… ${p.from - next} bytes were not kept\n`));
      next = p.next;
      const s = p.bytes === undefined ? p.text : new TextDecoder().decode(fromBase64(p.bytes));
      if (!s) return;
      const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 30;
      for (const piece of pieces(plain(s), "\n\t")) text.append(piece.odd ? h("span", { class: "odd" }, piece.text) : piece.text);
      length += s.length;
      while (length > mostShown && text.firstChild) {
        length -= text.firstChild.textContent!.length;
        text.firstChild.remove();
      }
      if (atEnd) text.scrollTop = text.scrollHeight;
    },
  };
}

/** plain removes the colours of a terminal, which a job's output is not shown on. */
function plain(s: string): string {
  return s.replace(/\x1b\[[\d;:?]*[A-Za-z]/g, "").replace(/\r\n/g, "\n");
}

/** jobs lists what runs in the background, and shows its output. */
export const jobs: Tab = (main, box) => {
  const command = h("input", { type: "text", placeholder: "Command to run in the background", "aria-label": "Command", autocomplete: "off", spellcheck: "false", class: "mono" });
  const body = h("tbody"), nothing = empty(""), shown = h("div", { class: "job" });
  const t = h("table", { class: "jobs", "aria-label": "Jobs" }, h("thead", null, h("tr", null, ["Command", "State", "Started", "Session", ""].map((x) => h("th", { scope: "col" }, x)))), body);
  let all: Job[] = [], open: Job | undefined, closed = false, timer = 0, turn = 0;
  const form = h("form", { class: "run", onsubmit: (e: Event) => { e.preventDefault(); void start(); } }, command, h("button", { type: "submit", class: "primary" }, "Run"));
  main.append(h("div", { class: "bar" }, h("h2", null, "Jobs"), button("Refresh", () => void load(), "small")), form, t, nothing, shown);
  const state = (j: Job) => j.state + (j.exitCode !== undefined ? ", exit " + j.exitCode : "");
  const draw = () => {
    t.hidden = all.length === 0;
    nothing.hidden = all.length > 0;
    setText(nothing, box.runs() ? "No jobs." : "The sandbox does not run.");
    fill(body, all.map((j) => h("tr", { "aria-current": j.id === open?.id && j.session === open.session ? "true" : false },
      h("td", { class: "wide", "data-label": "Command" }, button(clean(j.name || j.command, 300), () => show(j), "link mono")),
      h("td", { "data-label": "State" }, h("span", { class: j.state === "running" ? "good" : j.exitCode ? "bad" : "dim" }, state(j))),
      h("td", { "data-label": "Started" }, clock(j.startedAt), j.endedAt && h("span", { class: "sub" }, "took " + span(Date.parse(j.endedAt) - Date.parse(j.startedAt)))),
      h("td", { "data-label": "Session" }, bdi(j.session)),
      h("td", null, j.state === "running" && button("Terminate", () => void attempt(async () => {
        await post(of(box.id, "/jobs/signal"), { session: j.session, job: j.id, signal: "TERM" });
        await load();
      }), "small", { "aria-label": "Terminate " + clean(j.command, 80) })))));
  };
  const load = () => attempt(async () => {
    if (!box.runs()) {
      all = [];
      return draw();
    }
    all = (await get<{ jobs: Job[] | null }>(of(box.id, "/jobs"))).jobs ?? [];
    if (!closed) draw();
  });
  const start = async () => {
    if (!command.value.trim()) return;
    await attempt(async () => {
      const { job } = await post<{ job: Job }>(of(box.id, "/jobs"), { command: command.value });
      command.value = "";
      await load();
      show(job);
    });
  };
  const show = (j: Job) => {
    clearTimeout(timer);
    const mine = ++turn;
    open = j;
    draw();
    const out = output("Output"), err = output("Errors");
    err.element.hidden = true;
    fill(shown, h("h2", null, mono(j.command)), out.element, err.element);
    const look = async () => {
      const r = await get<{ job: Job; stdout: Part; stderr: Part }>(of(box.id, "/jobs/output" + query({ session: j.session, job: j.id, stdout: out.next(), stderr: err.next(), max: 65536 })));
      if (closed || mine !== turn) return;
      out.add(r.stdout);
      err.add(r.stderr);
      err.element.hidden = err.next() === 0;
      const behind = r.stdout.next < r.stdout.end || r.stderr.next < r.stderr.end;
      if (r.job.state !== j.state) {
        j = r.job;
        void load();
      }
      if (behind) await look();
      else if (r.job.state === "running") timer = window.setTimeout(() => void attempt(look), document.hidden ? 5 * again : again);
    };
    void attempt(look);
  };
  draw();
  void load();
  return { close: () => { closed = true; clearTimeout(timer); } };
};
