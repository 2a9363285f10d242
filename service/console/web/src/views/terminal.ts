import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type ITheme } from "@xterm/xterm";
import { get, of, post, query, socket } from "../api";
import { attempt } from "../dialog";
import { button, fill, h, setText } from "../dom";
import { go } from "../route";
import { clean } from "../text";
import type { Session } from "../types";
import type { Tab } from "./sandbox";

const scrollback = 5000; // lines
const typedMost = 60 << 10; // bytes of a message

// The terminal is dark in both schemes: programs choose their colours for that.
const dark: ITheme = {
  background: "#101614", foreground: "#d5ddd9", cursor: "#7fd0a6", selectionBackground: "#2f4a40",
  black: "#26302c", red: "#f0837a", green: "#7fd0a6", yellow: "#d9b65c", blue: "#7fb2f0", magenta: "#c79bea", cyan: "#6cc9cf", white: "#c6cfcb",
  brightBlack: "#7b8a83", brightRed: "#ffa49c", brightGreen: "#a4e5c3", brightYellow: "#efd080", brightBlue: "#a6cbfa", brightMagenta: "#dcbcf6", brightCyan: "#98e2e6", brightWhite: "#f2f6f4",
};


/** terminal shows the terminal of a session. Several pages may have the same one. */
export const terminal: Tab = (main, box, rest) => {
  const pick = h("select", { "aria-label": "Session", onchange: () => go("s", box.id, "terminal", pick.value) });
  const status = h("span", { class: "dim", role: "status" }), viewers = h("span", { class: "dim" });
  const end = button("End session", () => void attempt(async () => {
    await post(of(box.id, "/sessions/" + encodeURIComponent(name) + "/end"));
    disconnect();
    await choose("");
  }), "small", { hidden: true });
  const fresh = button("New session", () => void attempt(create), "small");
  const screen = h("div", { class: "screen" }), nothing = h("div", { class: "empty", hidden: true });
  main.append(h("div", { class: "bar" }, h("h2", null, "Terminal"), pick, viewers, status, h("span", { class: "side" }, h("span", { class: "dim hint" }, "F6 leaves the terminal"), fresh, end)), screen, nothing);

  const term = new Terminal({
    scrollback, fontSize: 13, fontFamily: 'ui-monospace, "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace', theme: dark,
    cursorBlink: false, screenReaderMode: false, allowProposedApi: false, macOptionIsMeta: true, minimumContrastRatio: 4.5,
    // A link opens nothing: its text can say another address than it has.
    linkHandler: { activate: () => {}, allowNonHttpProtocols: false },
    windowOptions: {},
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  // What a program says of titles, of the clipboard, of notices and of links stays unheard.
  for (const n of [0, 1, 2, 7, 8, 9, 50, 52, 777, 1337]) term.parser.registerOscHandler(n, () => true);
  term.attachCustomKeyEventHandler((e) => {
    if (e.key === "F6") {
      if (e.type === "keydown") pick.focus();
      return false;
    }
    return true;
  });

  let name = "", ws: WebSocket | undefined, closed = false, wait = 500, timer = 0;
  let offset: number | undefined; // of the next byte; undefined: the last that are kept are shown again
  let replay = 0; // bytes that are shown again: answers to their questions are not sent
  let ended = false;

  const send = (data: string | Uint8Array<ArrayBuffer>) => {
    if (ws?.readyState !== WebSocket.OPEN || replay > 0) return;
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let i = 0; i < bytes.length; i += typedMost) ws.send(bytes.slice(i, i + typedMost));
  };
  term.onData(send);
  term.onBinary((s) => send(Uint8Array.from(s, (c) => c.charCodeAt(0))));
  term.onResize(({ rows, cols }) => {
    if (ws?.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ rows, cols }));
  });

  const say = (text: string) => setText(status, text);
  const disconnect = () => {
    clearTimeout(timer);
    const old = ws;
    ws = undefined;
    old?.close();
  };

  const connect = () => {
    if (closed) return;
    disconnect();
    say(offset === undefined ? "connecting" : "connecting again");
    const at = offset === undefined ? { tail: 65536 } : { offset };
    const s = (ws = socket(of(box.id, "/sessions/" + encodeURIComponent(name) + "/terminal" + query({ rows: term.rows, cols: term.cols, ...at }))));
    s.onmessage = (e: MessageEvent<ArrayBuffer | string>) => {
      if (s !== ws) return;
      if (typeof e.data === "string") return heed(JSON.parse(e.data) as Said);
      const b = new Uint8Array(e.data), again = Math.min(replay, b.length);
      offset = (offset ?? 0) + b.length;
      term.write(b, () => (replay -= again));
    };
    s.onopen = () => {
      wait = 500;
    };
    s.onclose = () => {
      if (s !== ws) return;
      ws = undefined;
      if (closed || ended) return;
      say(`no connection: trying again`);
      timer = window.setTimeout(() => void again(), wait);
      wait = Math.min(10_000, wait * 2);
    };
  };
  /** again connects if the session still exists. */
  const again = async () => {
    try {
      const all = await sessions();
      const mine = all.find((s) => s.name === name);
      if (mine && mine.state !== "ended") return connect();
      over("The session has ended.");
    } catch {
      if (!closed) {
        timer = window.setTimeout(() => void again(), wait);
        wait = Math.min(10_000, wait * 2);
      }
    }
  };

  interface Said {
    start?: number;
    end?: number;
    exit?: { code: number; signal: string; detached: boolean };
    error?: { code: string; message: string };
  }
  const heed = (m: Said) => {
    if (m.exit) over(m.exit.detached ? "Another client has taken the terminal over." : "The shell has ended" + (m.exit.signal ? ` by the signal ${clean(m.exit.signal, 20)}.` : ` with code ${m.exit.code}.`));
    else if (m.error) over(clean(m.error.message, 500));
    else if (m.start !== undefined && m.end !== undefined) {
      if (offset !== m.start) {
        // what was missed is not kept any more, or this is the first time
        if (offset !== undefined) term.write("\r\n\x1b[2m… output is missing here\x1b[0m\r\n");
        offset = m.start;
      }
      replay = Math.max(0, m.end - m.start);
      ended = false;
      say("connected");
      end.hidden = false;
      void count();
      term.focus();
    }
  };
  const over = (text: string) => {
    ended = true;
    disconnect();
    say(text);
    end.hidden = true;
  };

  const sessions = async () => (await get<{ sessions: Session[] | null }>(of(box.id, "/sessions"))).sessions ?? [];
  const count = async () => {
    try {
      const s = (await sessions()).find((x) => x.name === name), n = s?.terminal?.viewers ?? 0;
      setText(viewers, n > 1 ? n + " viewers" : "");
    } catch {
      // it is not important
    }
  };
  const create = async () => {
    const r = await post<{ session: string }>(of(box.id, "/sessions"));
    go("s", box.id, "terminal", r.session);
  };
  const options = (all: Session[]) => {
    fill(pick, all.map((s) => h("option", { value: s.name }, clean(s.name, 60) + (s.state === "ended" ? " (ended)" : s.terminal?.viewers ? ` (${s.terminal.viewers} attached)` : ""))));
    pick.value = name;
    pick.hidden = all.length === 0;
  };

  /** choose shows a session; "": the first that has a terminal. */
  const choose = async (wanted: string) => {
    if (!box.runs()) {
      screen.hidden = true;
      nothing.hidden = false;
      fill(nothing, h("p", null, "The sandbox does not run: start it to use a terminal."));
      pick.hidden = fresh.hidden = true;
      return;
    }
    const all = (await sessions()).filter((s) => s.state !== "ended" || s.name === wanted);
    if (closed) return;
    name = wanted || all.find((s) => s.terminal)?.name || "";
    options(all);
    screen.hidden = !name;
    nothing.hidden = !!name;
    end.hidden = true;
    if (!name) {
      say("");
      const open = button("Start a shell", () => void attempt(create), "primary");
      fill(nothing, h("p", null, all.length ? "No terminal is open. " + all.length + " sessions run without one." : "No terminal is open."), open);
      open.focus();
      return;
    }
    if (!term.element) term.open(screen);
    term.reset();
    offset = undefined;
    fit.fit();
    connect();
  };

  const resized = new ResizeObserver(() => {
    if (screen.isConnected && !screen.hidden && term.element) fit.fit();
  });
  resized.observe(screen);
  void attempt(() => choose(rest));
  return {
    close() {
      closed = true;
      disconnect();
      resized.disconnect();
      term.dispose();
    },
    moved(p) {
      if (p.tab !== "terminal") return false;
      if (p.rest !== name) {
        disconnect();
        void attempt(() => choose(p.rest));
      }
      return true;
    },
  };
};

