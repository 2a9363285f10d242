import { Failure, get, of, post, query } from "../api";
import { attempt, dialog, notice, said, sure } from "../dialog";
import { bdi, button, empty, field, fill, h, mono, setText, type Child } from "../dom";
import { shortcuts } from "../keys";
import { go } from "../route";
import { can } from "../store";
import { bytes, clean, count, mode, moment } from "../text";
import type { Applied, Change, Diff, Repository, Snapshot } from "../types";
import { sides } from "./diff";
import type { Box, Tab } from "./sandbox";

const mostChanges = 5000;

const letters: Record<string, string> = { added: "A", modified: "M", deleted: "D", renamed: "R", type: "T", mode: "P" };

/** problemOf returns what keeps a change from being applied. */
const problemOf = (c: Change) => c.conflict ?? c.denied ?? c.unapplied;

/** named returns changes by their paths, as a request has them. */
function named(list: Change[]): { paths: string[]; paths64: string[] } {
  return { paths: list.filter((c) => !c.path64).map((c) => c.path), paths64: list.filter((c) => c.path64).map((c) => c.path64!) };
}

/** summary returns a change in one line. */
function summary(c: Change): Child[] {
  return [h("span", { class: "letter " + c.kind, title: c.kind }, letters[c.kind] ?? "?"), " ", mono(c.path), c.from !== undefined && [" from ", mono(c.from)]];
}

/** listed returns what an answer says was done and was left. */
function listed(r: Applied): HTMLElement {
  const part = (title: string, list: Change[] | null, more: number | undefined, withWhy: boolean) => list?.length
    ? [h("h3", null, `${title}: ${list.length + (more ?? 0)}`), h("ul", { class: "plain" }, list.slice(0, 100).map((c) => h("li", null, summary(c), withWhy && problemOf(c) && h("span", { class: "bad sub" }, bdi(problemOf(c)!)))))]
    : [];
  return h("div", { class: "scroll" }, part("Applied", r.applied, r.appliedMore, false), part("Left", r.left, r.leftMore, true));
}

interface Node_ {
  dirs: Map<string, Node_>;
  files: Change[];
}

/** treeOf returns changes by directories. */
function treeOf(all: Change[]): Node_ {
  const root: Node_ = { dirs: new Map(), files: [] };
  for (const c of all) {
    let n = root;
    const parts = c.path.split("/");
    for (const p of parts.slice(0, -1)) {
      let d = n.dirs.get(p);
      if (!d) n.dirs.set(p, (d = { dirs: new Map(), files: [] }));
      n = d;
    }
    n.files.push(c);
  }
  return root;
}

/** below returns all changes of a directory. */
function below(n: Node_): Change[] {
  return [...n.files, ...[...n.dirs.values()].flatMap(below)];
}

/** changes shows what a sandbox with a copied codebase has changed, and applies or discards it. */
export const changes: Tab = (main, box, rest) => {
  const parts = [["", "Files"], ["snapshots", "Snapshots and forks"], ...(can("commits") ? [["commits", "Commits"]] : [])] as [string, string][];
  const at = parts.some(([p]) => p === rest) ? rest : "";
  main.append(h("div", { class: "subtabs", role: "group", "aria-label": "Parts of the changes" }, parts.map(([p, text]) =>
    button(text, () => go("s", box.id, "changes", ...(p ? [p] : [])), p === at ? "on" : "", { "aria-pressed": String(p === at) }))));
  const body = h("div");
  main.append(body);
  return { "": fileChanges, snapshots, commits }[at]!(body, box);
};

function fileChanges(main: HTMLElement, box: Box) {
  const total = h("p", { class: "total", role: "status" }), tree = h("div", { class: "tree", role: "group", "aria-label": "Changed files" }), pane = h("section", { class: "diff", "aria-label": "Difference" });
  const applyAll = can("apply");
  let all: Change[] = [], more = 0, closed = false, shown: { change: Change; diff: Diff; hunks: Set<number> } | undefined;
  const picked = new Set<Change>();
  const apply = button("Apply", () => void act("apply"), "primary"), discard = button("Discard", () => void act("discard"), "danger");
  const everything = h("input", { type: "checkbox", id: "everything", onchange: () => { picked.clear(); if (everything.checked) all.forEach((c) => picked.add(c)); boxes(); } });
  main.append(
    h("div", { class: "bar actions-bar" }, h("span", null, everything, " ", h("label", { for: "everything" }, "All")), total, h("span", { class: "side" }, button("Refresh", () => void load(), "small"), apply, discard)),
    h("div", { class: "split review" }, tree, pane));

  const chosenHunks = () => (shown && shown.hunks.size && shown.hunks.size < (shown.diff.hunks?.length ?? 0) ? shown : undefined);
  const words = () => {
    const part = chosenHunks();
    if (part && picked.size === 0) return count(part.hunks.size, "hunk") + " of " + clean(part.change.path, 60);
    return picked.size === all.length && !more ? "all" : count(picked.size, "change");
  };
  const boxes = () => {
    for (const b of tree.querySelectorAll<HTMLInputElement>("input[type=checkbox]")) {
      const mine = members.get(b) ?? [], n = mine.filter((c) => picked.has(c)).length;
      b.checked = n > 0 && n === mine.length;
      b.indeterminate = n > 0 && n < mine.length;
    }
    everything.checked = all.length > 0 && picked.size === all.length;
    everything.indeterminate = picked.size > 0 && picked.size < all.length;
    const none = picked.size === 0 && !chosenHunks();
    apply.disabled = none || !applyAll;
    apply.title = applyAll ? "" : "This server does not change the host's directory: wolffia serve --allow-apply";
    discard.disabled = none;
    setText(apply, none ? "Apply" : "Apply " + words());
    setText(discard, none ? "Discard" : "Discard " + words());
  };
  const members = new Map<HTMLInputElement, Change[]>();

  const check = (label: string, mine: Change[]) => {
    const b = h("input", { type: "checkbox", "aria-label": "Choose " + label, onchange: () => { for (const c of mine) if (b.checked) picked.add(c); else picked.delete(c); boxes(); } });
    members.set(b, mine);
    return b;
  };
  const branch = (n: Node_, prefix: string): HTMLElement => h("ul", null,
    [...n.dirs].map(([name, d]) => {
      let path = prefix + name;
      while (d.files.length === 0 && d.dirs.size === 1) {
        const [[next, inner]] = [...d.dirs] as [[string, Node_]];
        path += "/" + next;
        name += "/" + next;
        d = inner;
      }
      return h("li", null, h("div", { class: "line dir" }, check(clean(path, 200), below(d)), h("span", { class: "mono" }, bdi(name + "/"))), branch(d, path + "/"));
    }),
    n.files.map((c) => {
      const problem = problemOf(c);
      return h("li", null, h("div", { class: "line", "data-path": c.path },
        check(clean(c.path, 200), [c]),
        h("button", { type: "button", class: "link mono", onclick: () => void show(c), title: problem ? clean(problem, 300) : null },
          h("span", { class: "letter " + c.kind, title: c.kind }, letters[c.kind] ?? "?"), " ", bdi(c.path.slice(prefix.length) || c.path)),
        problem && h("span", { class: "tag bad" }, c.conflict ? "conflict" : c.denied ? "denied" : "cannot be applied"),
        h("span", { class: "plusminus" }, c.binary ? "binary" : [c.added ? h("span", { class: "plus" }, "+" + c.added) : "", c.deleted ? h("span", { class: "minus" }, "−" + c.deleted) : ""])));
    }));
  const draw = () => {
    members.clear();
    const lines = all.reduce((s, c) => [s[0]! + (c.added ?? 0), s[1]! + (c.deleted ?? 0)], [0, 0]), conflicts = all.filter((c) => c.conflict).length;
    setText(total, all.length ? `${count(all.length + more, "change")}, +${lines[0]} −${lines[1]}${conflicts ? ", " + count(conflicts, "conflict") : ""}` : "");
    fill(tree, all.length ? branch(treeOf(all), "") : empty("Nothing was changed."), more ? h("p", { class: "dim" }, count(more, "more change") + ": wolffia diff " + box.id) : "");
    if (shown) for (const e of tree.querySelectorAll<HTMLElement>("[data-path]")) e.toggleAttribute("data-shown", e.dataset["path"] === shown.change.path);
    boxes();
  };
  let loads = 0; // an answer that comes late is left
  const load = () => attempt(async () => {
    const mine = ++loads;
    const r = await get<{ changes: Change[] | null; more: number }>(of(box.id, "/changes" + query({ limit: mostChanges })));
    if (closed || mine !== loads) return;
    const before = new Set([...picked].map((c) => c.path)), path = shown?.change.path;
    all = r.changes ?? [];
    more = r.more;
    picked.clear();
    for (const c of all) if (before.has(c.path)) picked.add(c);
    shown = undefined;
    fill(pane);
    draw();
    const again = all.find((c) => c.path === path) ?? (all.length && window.innerWidth > 700 ? all.find((c) => c.type === "file") : undefined);
    if (again) await show(again);
  });
  let turn = 0; // of what is shown: an answer that comes late shows nothing
  const show = (c: Change) => attempt(async () => {
    const mine = ++turn;
    const diff = await get<Diff>(of(box.id, "/diff" + query(c.path64 ? { path64: c.path64 } : { path: c.path })));
    if (closed || mine !== turn) return;
    shown = { change: c, diff, hunks: new Set() };
    for (const e of tree.querySelectorAll<HTMLElement>("[data-path]")) e.toggleAttribute("data-shown", e.dataset["path"] === c.path);
    const modes = c.oldMode !== undefined && c.newMode !== undefined && c.oldMode !== c.newMode;
    fill(pane,
      h("div", { class: "bar" }, h("h3", null, summary(c)), h("span", { class: "dim" }, modes ? `mode ${mode(c.oldMode)} → ${mode(c.newMode)} ` : "", c.size !== undefined ? bytes(c.size) : "")),
      problemOf(c) && h("p", { class: "warning" }, c.conflict ? "Conflict: " : "", bdi(problemOf(c)!)),
      diff.binary ? empty("A binary file.") : !diff.hunks?.length ? empty(c.type === "file" ? "No line differs." : c.type) :
        sides(diff, (i, on) => {
          if (on) shown?.hunks.add(i);
          else shown?.hunks.delete(i);
          boxes();
        }),
      diff.truncated && empty("The rest is not shown: it is too long."),
      !diff.canHunks && diff.why && !diff.binary && h("p", { class: "dim" }, "Not by hunk: ", bdi(diff.why)));
    boxes();
  });
  /** request returns what is chosen. */
  const request = () => {
    const part = chosenHunks();
    if (part && picked.size === 0) {
      const c = part.change;
      return { hunks: [{ path: c.path, ...(c.path64 ? { path64: c.path64 } : {}), digest: part.diff.digest, hunks: [...part.hunks].sort((a, b) => a - b) }] };
    }
    return picked.size === all.length && !more ? {} : named([...picked]);
  };
  const act = async (what: "apply" | "discard") => {
    const body = request(), text = words();
    if (what === "discard") {
      const whole = Object.keys(body).length === 0;
      const made = await sure("Discard " + text, whole ? "All that the sandbox changed is lost, and commits that were made inside." : "What the sandbox changed there is lost.", "Discard",
        () => post(of(box.id, "/changes/discard"), body), whole ? box.now().name || box.id : "");
      if (made) {
        notice("Discarded " + text + ".");
        await load();
      }
      return;
    }
    let plan: Applied;
    try {
      plan = await post<Applied>(of(box.id, "/changes/apply"), { ...body, dryRun: true });
    } catch (e) {
      const r = e instanceof Failure ? (e.result as Applied | undefined) : undefined;
      if (!r) return notice(said(e), true);
      await forced(said(e), r, body, text);
      return;
    }
    const made = await sure("Apply " + text, [h("p", null, "This changes the host's directory ", mono(box.now().codebase || "of the sandbox"), "."), listed(plan)], "Apply", () => post(of(box.id, "/changes/apply"), body));
    if (made) {
      notice("Applied " + text + ".");
      await load();
    }
  };
  const forced = async (problem: string, r: Applied, body: object, text: string) => {
    const made = await sure("Apply " + text + " by force", [h("p", { class: "warning" }, bdi(problem)), listed(r), h("p", null, "By force the sandbox's side replaces what the host has. What the host has changed there is lost.")],
      "Apply by force", () => post(of(box.id, "/changes/apply"), { ...body, force: true }), box.now().name || box.id);
    if (made) {
      notice("Applied " + text + ".");
      await load();
    }
  };
  const step = (by: number) => {
    const i = all.findIndex((c) => c === shown?.change), next = all[Math.max(0, Math.min(all.length - 1, i + by))];
    if (next) void show(next);
  };
  shortcutsFor(step);
  draw();
  void load();
  return { close: () => (closed = true) };
}

/** shortcutsFor adds the keys that go from change to change, beside those of the sandbox. */
function shortcutsFor(step: (by: number) => void): void {
  shortcuts([{ keys: "n", text: "next change", act: () => step(1) }, { keys: "p", text: "change before", act: () => step(-1) }], true);
}

function snapshots(main: HTMLElement, box: Box) {
  const list = h("div"), input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", required: true }), memory = h("input", { type: "checkbox", id: "memory" });
  main.append(
    h("form", { class: "filters", onsubmit: (e: Event) => { e.preventDefault(); void attempt(async () => {
      await post(of(box.id, "/snapshots"), { name: input.value, ...(memory.checked ? { memory: true } : {}) });
      input.value = "";
      await load();
    }); } },
      field("Name of a new snapshot", input), h("span", { class: "check" }, memory, " ", h("label", { for: "memory" }, "with the memory of its processes (gVisor)")), h("button", { type: "submit", class: "primary" }, "Keep a snapshot")),
    list,
    h("h2", null, "Fork"), h("p", null, "A fork is a new sandbox that has the same changes. ", button("Fork now", () => void attempt(async () => {
      const r = await post<{ sandboxes: string[] }>(of(box.id, "/fork"), { count: 1 });
      if (r.sandboxes[0]) go("s", r.sandboxes[0]);
    }))));
  const load = async () => {
    const r = await get<{ snapshots: Snapshot[] | null }>(of(box.id, "/snapshots"));
    const all = r.snapshots ?? [];
    fill(list, all.length === 0 ? empty("No snapshots.") : h("table", { class: "files", "aria-label": "Snapshots" }, h("tbody", null, all.map((s) => h("tr", null,
      h("th", { scope: "row", class: "wide" }, mono(s.name), s.memory ? h("span", { class: "dim" }, " with memory") : ""), h("td", { class: "dim nowrap" }, moment(s.createdAt)),
      h("td", { class: "nowrap" }, button("Restore", () => void sure("Restore " + s.name, "The changes of now are replaced by those of the snapshot, and all processes end.", "Restore", () => post(of(box.id, "/snapshots/restore"), { name: s.name }), s.name), "small", { "aria-label": "Restore " + clean(s.name, 80) }), " ",
        button("Remove", () => void sure("Remove " + s.name, "The snapshot is lost.", "Remove", async () => { await post(of(box.id, "/snapshots/remove"), { name: s.name }); await load(); }, s.name), "small danger", { "aria-label": "Remove " + clean(s.name, 80) })))))));
  };
  void attempt(load);
  return { close() {} };
}

function commits(main: HTMLElement, box: Box) {
  const list = h("div");
  main.append(list);
  const load = async () => {
    const r = await get<{ repositories: Repository[] | null }>(of(box.id, "/commits"));
    const all = r.repositories ?? [];
    fill(list, all.length === 0 ? empty("No repository inside has commits.") : h("table", { class: "files", "aria-label": "Repositories" },
      h("thead", null, h("tr", null, ["Repository", "Commits the host lacks", ""].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", null, all.map((x) => h("tr", null, h("th", { scope: "row", class: "wide" }, mono(x.dir || "the codebase")), h("td", null, String(x.ahead)),
        h("td", null, x.ahead > 0 && x.hosted ? button("Take as branches", () => void take(x), "small") : x.hosted ? "" : h("span", { class: "dim" }, "made inside")))))));
  };
  const take = async (x: Repository) => {
    const branch = h("input", { type: "text", autocomplete: "off", spellcheck: "false", class: "mono" });
    const made = await sure("Take " + count(x.ahead, "commit"), [h("p", null, "Each branch with new commits becomes a branch of the host's repository. Your own git checks each object first. No file is changed."), field("Branch (empty: wolffia/SANDBOX/BRANCH)", branch)], "Take", async () => {
      const r = await post<{ branches: { name: string; at: string }[] | null }>(of(box.id, "/commits/export"), { dir: x.dir, branch: branch.value });
      const d = dialog("Branches", h("ul", { class: "plain" }, (r.branches ?? []).map((b) => h("li", null, mono(b.name), " ", h("span", { class: "mono dim" }, clean(b.at, 80).slice(0, 12))))), h("div", { class: "actions" }, button("Close", () => d.close(), "primary")));
    });
    if (made) await attempt(load);
  };
  void attempt(load);
  return { close() {} };
}
