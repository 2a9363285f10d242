// The SDK's own client of E2B against a real service, and an agent whose model is scripted.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Runner, Usage } from "@openai/agents";
import { file, Manifest, SandboxAgent } from "@openai/agents/sandbox";
import { E2BSandboxClient } from "@openai/agents-extensions/sandbox/e2b";

const options = { timeout: 600, exposedPorts: [8000] };
const manifest = () => new Manifest({ root: "/workspace", entries: { "given.txt": file({ content: "hello\n" }) } });
const client = new E2BSandboxClient(options);
let session;
before(async () => { session = await client.create(manifest()); });
after(() => session.delete());

test("commands and a terminal", async () => {
  const said = await session.execCommand({ cmd: "cat given.txt; pwd; exit 3" });
  assert.match(said, /hello\n\/workspace/);
  assert.match(said, /code 3/);
  assert.ok(session.supportsPty());
  const begun = await session.execCommand({ cmd: "read a; echo got=$a; sleep 1000", tty: true, yieldTimeMs: 500 });
  const id = Number(/session ID (\d+)/.exec(begun)[1]);
  assert.match(await session.writeStdin({ sessionId: id, chars: "x\n", yieldTimeMs: 5000 }), /got=x/);
});

test("files, and the workspace in another sandbox", async () => {
  await session.execCommand({ cmd: "mkdir -p d && printf '\\377' >d/bytes && chmod 755 d/bytes" });
  assert.deepEqual([...await session.readFile({ path: "d/bytes" })], [255]);
  assert.ok(await session.directoryExists("d"));
  const kept = await session.persistWorkspace();
  const other = await client.create(manifest());
  await other.hydrateWorkspace(kept);
  assert.match(await other.execCommand({ cmd: "stat -c %a d/bytes" }), /755/);
  await other.delete();
});

test("a port", async () => {
  await session.execCommand({ cmd: "python3 -m http.server 8000 >/tmp/log 2>&1 &" });
  const { host, port } = await session.resolveExposedPort(8000);
  assert.match(host, /^8000-/);
  assert.ok(port > 0);
});

test("an agent", async () => {
  const model = {
    async getResponse({ input, tools }) {
      const done = Array.isArray(input) && input.find((i) => i.type === "function_call_result");
      const text = done && JSON.stringify(done.output);
      const output = done
        ? [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] }]
        : [{ type: "function_call", callId: "1", name: "exec_command", status: "completed",
             arguments: JSON.stringify({ cmd: "cat given.txt; echo $((6 * 7))" }) }];
      assert.ok(tools.some((t) => t.name === "exec_command"));
      return { usage: new Usage(), output };
    },
  };
  const agent = new SandboxAgent({ name: "coder", instructions: "Work.", model, defaultManifest: manifest() });
  const runner = new Runner({ tracingDisabled: true });
  const result = await runner.run(agent, "go", { sandbox: { client } });
  assert.match(result.finalOutput, /hello\\n42/);
});
