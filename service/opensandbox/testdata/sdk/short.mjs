// Drives what each client of the SDK does first: node short.mjs HOST:PORT KEY.
import assert from "node:assert/strict";
import { ConnectionConfig, Sandbox } from "@alibaba-group/opensandbox";

const [domain, apiKey] = process.argv.slice(2);
const connectionConfig = new ConnectionConfig({ domain, protocol: "http", apiKey });
const sandbox = await Sandbox.create({ connectionConfig, image: "host", timeoutSeconds: 600, env: { GREETING: "hello there" } });
try {
  const failed = await sandbox.commands.run("echo $GREETING; echo problem >&2; exit 3");
  assert.deepEqual([failed.logs.stdout[0].text, failed.logs.stderr[0].text, failed.exitCode], ["hello there", "problem", 3]);
  await sandbox.files.writeFiles([{ path: "/workspace/a.txt", data: "one\n", mode: 640 }]);
  assert.equal(await sandbox.files.readFile("/workspace/a.txt"), "one\n");
  assert.ok((await sandbox.getMetrics()).memoryTotalMiB > 0);
} finally {
  await sandbox.kill();
}
await assert.rejects(sandbox.getInfo(), (e) => e.statusCode === 404);
await sandbox.close();
