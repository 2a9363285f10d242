import { get, of, query, save } from "../api";
import { attempt } from "../dialog";
import { bdi, button, empty, fill, h, setText } from "../dom";
import { to } from "../route";
import { bytes, clean, fromBase64, mode, moment, pieces, toBase64 } from "../text";
import type { Entry } from "../types";
import type { Tab } from "./sandbox";

const most = 256 << 10;

/** A Path is a path inside, as text and, where that is not exact, as bytes in base64. */
interface Path {
  path: string;
  path64?: string;
}

const params = (p: Path) => (p.path64 ? { path64: p.path64 } : { path: p.path });

/** below returns the path of an entry. */
function below(dir: Path, e: Entry): Path {
  const path = dir.path.replace(/\/$/, "") + "/" + e.name;
  if (!e.nameBytes && !dir.path64) return { path };
  const d = dir.path64 ? fromBase64(dir.path64) : new TextEncoder().encode(dir.path.replace(/\/$/, ""));
  const n = e.nameBytes ? fromBase64(e.nameBytes) : new TextEncoder().encode(e.name);
  const all = new Uint8Array(d.length + 1 + n.length);
  all.set(d);
  all[d.length] = 47;
  all.set(n, d.length + 1);
  return { path, path64: toBase64(all) };
}

/** files shows the directories of a sandbox, and its files as text. */
export const files: Tab = (main, box, rest) => {
  const crumbs = h("nav", { class: "crumbs mono", "aria-label": "Directory" }), body = h("tbody"), nothing = empty(""), more = h("p", { class: "dim" });
  const t = h("table", { class: "files", "aria-label": "Files" }, h("thead", null, h("tr", null, ["Name", "Size", "Mode", "Changed"].map((x) => h("th", { scope: "col" }, x)))), body);
  const shown = h("section", { class: "file", "aria-label": "File", hidden: true });
  const split = h("div", { class: "split" }, h("div", null, t, nothing, more), shown);
  main.append(h("div", { class: "bar" }, h("h2", null, "Files"), crumbs), split);
  let closed = false, turn = 0;
  const view = (p: Path, e: { name: string; size: number }) => {
    shown.hidden = false;
    split.classList.add("open");
    const text = h("pre", { class: "output", tabindex: "0", "aria-label": "Content" }), about = h("span", { class: "dim" });
    const next = button("More", () => void attempt(load), "small", { hidden: true });
    let at = 0;
    const load = async () => {
      const r = await get<{ text: string; bytes?: string; offset: number; size: number }>(of(box.id, "/file" + query({ ...params(p), max: most, offset: at || undefined })));
      if (r.bytes !== undefined && at === 0 && r.text.slice(0, 4096).includes("\0")) {
        fill(text, h("span", { class: "dim" }, "Not a text: download it."));
        setText(about, bytes(r.size));
        return;
      }
      for (const piece of pieces(r.text, "\n\t")) text.append(piece.odd ? h("span", { class: "odd" }, piece.text) : piece.text);
      at = r.offset + (r.bytes !== undefined ? fromBase64(r.bytes).length : new TextEncoder().encode(r.text).length);
      setText(about, bytes(r.size) + (at < r.size ? `, the first ${bytes(at)} are shown` : ""));
      next.hidden = at >= r.size;
    };
    fill(shown, h("div", { class: "bar" }, h("h3", null, bdi(e.name)), about,
      h("span", { class: "side" }, button("Download", () => void attempt(() => save(of(box.id, "/download" + query(params(p))), clean(e.name, 200))), "small"),
        button("Close", () => { shown.hidden = true; split.classList.remove("open"); }, "small"))), text, next);
    void attempt(load);
  };
  const list = async (dir: Path) => {
    const mine = ++turn;
    if (!box.runs()) {
      setText(nothing, "The sandbox does not run: its files are shown while it runs.");
      t.hidden = true;
      return;
    }
    await attempt(async () => {
      const r = await get<{ path: string; entries: Entry[] | null; more: boolean }>(of(box.id, "/files" + query({ ...params(dir), limit: 1000 })));
      if (closed || mine !== turn) return;
      const at: Path = dir.path64 ? dir : { path: r.path };
      const parts = r.path.split("/").filter(Boolean);
      fill(crumbs, h("a", { href: to("s", box.id, "files", "/") }, "/"), parts.map((p, i) =>
        [i ? "/" : "", h("a", { href: to("s", box.id, "files", "/" + parts.slice(0, i + 1).join("/")), "aria-current": i === parts.length - 1 ? "page" : false }, bdi(p))]));
      const entries = (r.entries ?? []).sort((a, b) => Number(b.type === "directory") - Number(a.type === "directory") || (a.name < b.name ? -1 : 1));
      t.hidden = entries.length === 0;
      setText(nothing, entries.length ? "" : "The directory is empty.");
      setText(more, r.more ? "There are more: the first 1000 are shown." : "");
      fill(body, entries.map((e) => {
        const p = below(at, e);
        const open = e.type === "directory"
          ? p.path64 ? button(clean(e.name) + "/", () => void list(p), "link mono") : h("a", { class: "mono", href: to("s", box.id, "files", p.path) }, bdi(e.name + "/"))
          : e.type === "file" ? h("button", { type: "button", class: "link mono", onclick: () => view(p, e) }, bdi(e.name)) : h("span", { class: "mono" }, bdi(e.name));
        return h("tr", null,
          h("th", { scope: "row", class: "wide" }, open, e.target !== undefined && h("span", { class: "dim" }, " → ", bdi(e.target))),
          h("td", { class: "number", "data-label": "Size" }, e.type === "file" ? bytes(e.size) : e.type === "directory" ? "" : e.type),
          h("td", { class: "mono dim", "data-label": "Mode" }, mode(e.mode)),
          h("td", { class: "nowrap dim", "data-label": "Changed" }, moment(e.modifiedAt)));
      }));
    });
  };
  void list({ path: rest || box.now().mountPoint || "/" });
  return {
    close: () => (closed = true),
    moved(p) {
      if (p.tab !== "files") return false;
      void list({ path: p.rest || box.now().mountPoint || "/" });
      return true;
    },
  };
};
