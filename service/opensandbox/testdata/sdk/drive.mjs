// Drives the methods of the official SDK against a service: node drive.mjs HOST:PORT KEY.
import assert from "node:assert/strict";
import { ConnectionConfig, Sandbox, SandboxManager } from "@alibaba-group/opensandbox";

const [domain, apiKey] = process.argv.slice(2);
const connectionConfig = new ConnectionConfig({ domain, protocol: "http", apiKey });
const text = (messages) => messages.map((m) => m.text);

const sandbox = await Sandbox.create({
  connectionConfig, image: "host", timeoutSeconds: 600, metadata: { team: "x" }, env: { GREETING: "hello there" },
});
try {
  assert.equal((await sandbox.getInfo()).status.state, "Running");
  assert.deepEqual((await sandbox.getInfo()).metadata, { team: "x" });
  assert.equal(await sandbox.isHealthy(), true);

  const failed = await sandbox.commands.run("echo $GREETING; echo problem >&2; exit 3");
  assert.deepEqual(text(failed.logs.stdout), ["hello there"]);
  assert.deepEqual(text(failed.logs.stderr), ["problem"]);
  assert.equal(failed.exitCode, 3);
  assert.equal(failed.error.value, "3");
  const fine = await sandbox.commands.run("pwd; echo $A", { workingDirectory: "/tmp", envs: { A: "b" } });
  assert.deepEqual([text(fine.logs.stdout), fine.exitCode, fine.error], [["/tmp", "b"], 0, undefined]);
  const late = await sandbox.commands.run("sleep 1000", { timeoutSeconds: 1 });
  assert.equal(late.exitCode, -1);
  await assert.rejects(sandbox.commands.run("true", { workingDirectory: "/nowhere" }), /no such file or directory/);
  const types = [];
  for await (const event of sandbox.commands.runStream("echo streamed")) types.push(event.type);
  assert.deepEqual(types, ["init", "ping", "stdout", "execution_complete"]);

  await sandbox.files.writeFiles([
    { path: "/workspace/d/a.txt", data: "one\ntwo\n", mode: 640 },
    { path: "/tmp/b.bin", data: new Uint8Array([0, 255, 10]) },
    { path: "/tmp/stream", data: new Blob(["from ", "a stream"]).stream() },
  ]);
  assert.equal(await sandbox.files.readFile("/workspace/d/a.txt"), "one\ntwo\n");
  assert.equal(await sandbox.files.readFile("/workspace/d/a.txt", { range: "bytes=4-6" }), "two");
  assert.equal(await sandbox.files.readFile("/tmp/stream"), "from a stream");
  assert.deepEqual([...(await sandbox.files.readBytes("/tmp/b.bin"))], [0, 255, 10]);
  const info = (await sandbox.files.getFileInfo(["/workspace/d/a.txt"]))["/workspace/d/a.txt"];
  assert.deepEqual([info.size, info.mode, info.modifiedAt instanceof Date], [8, 640, true]);
  await sandbox.files.createDirectories([{ path: "/tmp/e/f", mode: 755 }]);
  await sandbox.files.moveFiles([{ src: "/workspace/d/a.txt", dest: "/tmp/e/f/a.txt" }]);
  await sandbox.files.replaceContents([{ path: "/tmp/e/f/a.txt", oldContent: "one", newContent: "1" }]);
  await sandbox.files.setPermissions([{ path: "/tmp/e/f/a.txt", mode: 600 }]);
  assert.equal(await sandbox.files.readFile("/tmp/e/f/a.txt"), "1\ntwo\n");
  const found = await sandbox.files.search({ path: "/tmp/e", pattern: "*.txt" });
  assert.deepEqual(found.map((f) => [f.path, f.mode]), [["/tmp/e/f/a.txt", 600]]);
  await sandbox.files.deleteFiles(["/tmp/b.bin"]);
  await sandbox.files.deleteDirectories(["/tmp/e"]);
  await assert.rejects(sandbox.files.readFile("/tmp/e/f/a.txt"), (e) => e.statusCode === 404);

  const session = await sandbox.commands.createSession({ workingDirectory: "/tmp" });
  await sandbox.commands.runInSession(session, "state() { echo $V; }; V=kept; cd /");
  const second = await sandbox.commands.runInSession(session, "state; pwd");
  assert.deepEqual(text(second.logs.stdout), ["kept", "/"]);
  await sandbox.commands.deleteSession(session);

  const job = await sandbox.commands.run("echo begun; sleep 1000", { background: true });
  assert.equal((await sandbox.commands.getCommandStatus(job.id)).running, true);
  while ((await sandbox.commands.getBackgroundCommandLogs(job.id)).content === "");
  await sandbox.commands.interrupt(job.id);
  let status;
  do status = await sandbox.commands.getCommandStatus(job.id); while (status.running);
  assert.equal(status.exitCode, 130);
  const { content, cursor } = await sandbox.commands.getBackgroundCommandLogs(job.id);
  assert.equal(content.slice(0, 6), "begun\n");
  assert.equal((await sandbox.commands.getBackgroundCommandLogs(job.id, cursor)).content, "");

  assert.ok((await sandbox.getMetrics()).memoryTotalMiB > 0);
  assert.deepEqual(await sandbox.getEgressPolicy(), { defaultAction: "deny", egress: [] });
  await assert.rejects(sandbox.patchEgressRules([{ action: "allow", target: "example.com" }]), (e) => e.statusCode === 409);
  assert.ok((await sandbox.getEndpoint(8080)).endpoint.endsWith(`/sandboxes/${sandbox.id}/port/8080`));
  assert.ok((await sandbox.renew(1200)).expiresAt.getTime() > Date.now() + 1100_000);

  const manager = SandboxManager.create({ connectionConfig });
  assert.deepEqual((await manager.listSandboxInfos({ metadata: { team: "x" }, states: ["Running"] })).items.map((s) => s.id), [sandbox.id]);
  assert.equal((await (await Sandbox.connect({ connectionConfig, sandboxId: sandbox.id })).commands.run("true")).exitCode, 0);
  await sandbox.pause();
  assert.equal((await sandbox.getInfo()).status.state, "Paused");
  const resumed = await sandbox.resume();
  assert.deepEqual(text((await resumed.commands.run("echo back")).logs.stdout), ["back"]);
} finally {
  await sandbox.kill();
}
await assert.rejects(sandbox.getInfo(), (e) => e.statusCode === 404);
await sandbox.close();
