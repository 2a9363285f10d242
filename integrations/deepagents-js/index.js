import { BaseSandbox } from "deepagents";

/** How many bytes of a file one call reads. A file that is written has at most 32 MiB. */
const CHUNK = 16 << 20;
/** The kernel takes arguments of 128 KiB. */
const LONGEST = 100_000;

export class WolffiaError extends Error {
  constructor(status, reply) {
    const error = reply?.error ?? reply ?? {};
    super(error.message ?? `the service answers with status ${status}`);
    this.name = "WolffiaError";
    this.code = error.code ?? "";
    this.status = status;
    this.result = reply?.result;
  }
}

class Client {
  constructor({ address, key, owner } = {}) {
    const env = globalThis.process?.env ?? {};
    this.address = (address ?? env.WOLFFIA_ADDRESS ?? "").replace(/\/$/, "");
    if (!/^https?:/.test(this.address)) throw new TypeError(`address "${this.address}": it must be http://HOST:PORT of wolffia serve --listen`);
    this.key = key ?? env.WOLFFIA_API_KEY;
    const [organizationId, projectId, userId] = (owner ?? env.WOLFFIA_OWNER ?? "local/javascript/default").split("/");
    this.owner = { organizationId, projectId, userId };
  }

  async call(name, about) {
    const headers = { "Content-Type": "application/json" };
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    const response = await fetch(`${this.address}/api/v1/${name}`, {
      method: "POST", headers, body: JSON.stringify({ ...this.owner, ...about }),
    });
    const reply = await response.json().catch(() => undefined);
    if (!response.ok) throw new WolffiaError(response.status, reply);
    return reply;
  }
}

export class WolffiaSandbox extends BaseSandbox {
  #client;
  #timeout;
  #maxOutput;

  constructor(id, options = {}) {
    super();
    this.id = id;
    this.#client = new Client(options);
    this.#timeout = options.timeout ?? 1800;
    this.#maxOutput = options.maxOutput ?? 8 << 20;
  }

  static async create(options = {}) {
    const { image, env, metadata, ttl, network, egress, cow = true } = options;
    const made = await new Client(options).call("addSandbox", {
      image, env, metadata, network, egress, cow, ttlMs: ttl === undefined ? undefined : Math.max(1, Math.round(ttl * 1000)),
    });
    return new WolffiaSandbox(made.sandboxId, options);
  }

  async destroy() {
    await this.#call("destroySandbox");
  }

  async [Symbol.asyncDispose]() {
    await this.destroy();
  }

  #call(name, about) {
    return this.#client.call(name, { sandboxId: this.id, ...about });
  }

  async execute(command) {
    // The command has one stream, as a terminal has: its lines are in their order.
    const text = `exec 2>&1\n${command}`;
    const program = Buffer.byteLength(text) <= LONGEST
      ? { command: ["sh", "-c", text] }
      : { command: ["sh", "-c", 'eval "$(cat || echo exit 127)" </dev/null'], stdin: { content: text } };
    try {
      const r = await this.#call("runCommand", {
        ...program, maxBytes: this.#maxOutput, timeoutMs: Math.round(this.#timeout * 1000),
      });
      return { output: r.stdout + (r.startError ?? ""), exitCode: r.exitCode, truncated: r.truncated };
    } catch (e) {
      if (e.code !== "timedOut") throw e;
      return { output: `${e.result?.stdout ?? ""}\n${e.message}`, exitCode: 124, truncated: e.result?.truncated ?? false };
    }
  }

  async uploadFiles(files) {
    return Promise.all(files.map(async ([path, content]) => {
      if (!path.startsWith("/")) return { path, error: "invalid_path" };
      const file = { encoding: "base64", content: Buffer.from(content).toString("base64") };
      try {
        await this.#call("writeFiles", { files: { [path]: file } });
        return { path, error: null };
      } catch (e) {
        return { path, error: await this.#errorOf(path, e) };
      }
    }));
  }

  async downloadFiles(paths) {
    return Promise.all(paths.map(async (path) => {
      if (!path.startsWith("/")) return { path, content: null, error: "invalid_path" };
      try {
        return { path, content: await this.#read(path), error: null };
      } catch (e) {
        return { path, content: null, error: await this.#errorOf(path, e) };
      }
    }));
  }

  async #read(path) {
    const parts = [];
    for (let at = 0; ;) {
      const r = await this.#call("readFile", { path, offset: at, bytes: CHUNK });
      const part = Buffer.from(r.content, r.encoding === "base64" ? "base64" : "utf8");
      parts.push(part);
      at += part.length;
      if (at >= r.size || part.length === 0) return new Uint8Array(Buffer.concat(parts));
    }
  }

  /** Returns deepagents' code for an error. It has no code for one of another kind, which is thrown. */
  async #errorOf(path, e) {
    if (e.code === "denied") return "permission_denied";
    if (e.code === "notFound" && e.message.includes("no such file")) return "file_not_found";
    if (e.code !== "invalid") throw e;
    const r = await this.#call("runCommand", { command: ["test", "-d", path] });
    return r.exitCode === 0 ? "is_directory" : "invalid_path";
  }
}
