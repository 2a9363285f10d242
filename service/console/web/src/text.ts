// Text of sandboxes made safe to look at, and numbers made short.

// Characters that would not be seen, or would move others: controls, marks of direction and of joining, separators of
// lines, private and lone surrogates.
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;

/** escaped returns how a character that must not act is written. */
function escaped(c: string): string {
  const n = c.codePointAt(0)!;
  if (c === "\n") return "\\n";
  if (c === "\t") return "\\t";
  if (c === "\r") return "\\r";
  if (n < 0x100) return "\\x" + n.toString(16).padStart(2, "0");
  return n < 0x10000 ? "\\u" + n.toString(16).padStart(4, "0") : "\\u{" + n.toString(16) + "}";
}

/** clean returns a text of a sandbox on one line, without anything that acts. At most `most` characters of it. */
export function clean(s: string, most = 4096): string {
  if (s.length > most) s = s.slice(0, most) + "…";
  return s.replace(hidden, escaped);
}

/** pieces splits a text into what can be shown as it is, and what is escaped. `keep` has characters that stay. */
export function pieces(s: string, keep = ""): { text: string; odd: boolean }[] {
  const found: { text: string; odd: boolean }[] = [];
  let from = 0;
  for (const m of s.matchAll(hidden)) {
    if (keep.includes(m[0])) continue;
    if (m.index > from) found.push({ text: s.slice(from, m.index), odd: false });
    found.push({ text: escaped(m[0]), odd: true });
    from = m.index + m[0].length;
  }
  if (from < s.length) found.push({ text: s.slice(from), odd: false });
  return found;
}

/** quoted returns a command line as a shell would take it, on one line. */
export function quoted(words: string[] | null | undefined): string {
  return (words ?? []).map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'")).join(" ");
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

/** bytes returns an amount of memory with two or three digits. */
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  let u = 0;
  while (n >= 1000 && u < units.length - 1) {
    n /= 1024;
    u++;
  }
  return (u === 0 || n >= 99.95 ? Math.round(n) : Number(n.toFixed(n >= 9.995 ? 1 : 2))) + " " + units[u];
}

/** rate returns bytes a second. */
export function rate(n: number | null | undefined): string {
  return n === null || n === undefined ? "–" : bytes(n) + "/s";
}

/** cores returns how many processors are in use. */
export function cores(n: number | null | undefined): string {
  return n === null || n === undefined ? "–" : n < 0.005 ? "0" : n.toFixed(2);
}

/** span returns a length of time in ms in its largest unit. */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return s + " s";
  const m = Math.round(s / 60);
  if (m < 90) return m + " min";
  const h = Math.round(m / 60);
  if (h < 48) return h + " h";
  return Math.round(h / 24) + " d";
}

const date = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" }); // 2026-11-30 21:44:02

/** moment returns a time in the browser's zone. */
export function moment(at: number | string): string {
  const d = new Date(at);
  return isNaN(d.getTime()) ? "–" : date.format(d);
}

/** clock returns the time of a day, with its date unless it is today. */
export function clock(at: number | string): string {
  const text = moment(at);
  const today = date.format(new Date()).slice(0, 10);
  return text.startsWith(today) ? text.slice(11) : text;
}

/** count returns a number with a word, in the plural unless it is one. */
export function count(n: number, word: string): string {
  return n.toLocaleString("en") + " " + (n === 1 ? word : word.endsWith("y") ? word.slice(0, -1) + "ies" : word + "s");
}

/** mode returns the permission bits of a file in octal digits. */
export function mode(n: number | undefined): string {
  return n === undefined ? "" : (n & 0o7777).toString(8).padStart(4, "0");
}

/** fromBase64 returns the bytes of a text in base64. */
export function fromBase64(s: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(s), (c) => c.charCodeAt(0));
}

/** toBase64 returns bytes in base64. */
export function toBase64(b: Uint8Array): string {
  let s = "";
  for (const n of b) s += String.fromCharCode(n);
  return btoa(s);
}
