// Drives all methods of the official SDK against a service: node drive.mjs HOST:PORT KEY. It fails if the SDK
// has a method that it does not drive.
import assert from "node:assert/strict";
import * as sdk from "@alibaba-group/opensandbox";
import { missed, spy } from "./spy.mjs";

const { ConnectionConfig } = sdk;
const Sandbox = spy("Sandbox", sdk.Sandbox);
const SandboxManager = spy("SandboxManager", sdk.SandboxManager);
const [domain, apiKey] = process.argv.slice(2);
const status = (code) => (e) => e.statusCode === code;
const connectionConfig = new ConnectionConfig({ domain, protocol: "http", apiKey });
const text = (messages) => messages.map((m) => m.text);

const made = await Sandbox.create({
  connectionConfig, image: "host", timeoutSeconds: 600, metadata: { team: "x" }, env: { GREETING: "hello there" },
});
const sandbox = spy("sandbox", made);
const commands = spy("commands", made.commands);
const files = spy("files", made.files);
const { id } = made;
try {
  assert.equal((await sandbox.getInfo()).status.state, "Running");
  assert.deepEqual((await sandbox.getInfo()).metadata, { team: "x" });
  assert.equal(await sandbox.isHealthy(), true);

  const failed = await commands.run("echo $GREETING; echo problem >&2; exit 3");
  assert.deepEqual(text(failed.logs.stdout), ["hello there"]);
  assert.deepEqual(text(failed.logs.stderr), ["problem"]);
  assert.equal(failed.exitCode, 3);
  assert.equal(failed.error.value, "3");
  const fine = await commands.run("pwd; echo $A", { workingDirectory: "/tmp", envs: { A: "b" } });
  assert.deepEqual([text(fine.logs.stdout), fine.exitCode, fine.error], [["/tmp", "b"], 0, undefined]);
  const late = await commands.run("sleep 1000", { timeoutSeconds: 1 });
  assert.equal(late.exitCode, -1);
  await assert.rejects(commands.run("true", { workingDirectory: "/nowhere" }), /no such file or directory/);
  const types = [];
  for await (const event of commands.runStream("echo streamed")) types.push(event.type);
  assert.deepEqual(types, ["init", "ping", "stdout", "execution_complete"]);

  await files.writeFiles([
    { path: "/workspace/d/a.txt", data: "one\ntwo\n", mode: 640 },
    { path: "/tmp/b.bin", data: new Uint8Array([0, 255, 10]) },
    { path: "/tmp/stream", data: new Blob(["from ", "a stream"]).stream() },
  ]);
  assert.equal(await files.readFile("/workspace/d/a.txt"), "one\ntwo\n");
  assert.equal(await files.readFile("/workspace/d/a.txt", { range: "bytes=4-6" }), "two");
  assert.equal(await files.readFile("/tmp/stream"), "from a stream");
  assert.deepEqual([...(await files.readBytes("/tmp/b.bin"))], [0, 255, 10]);
  const info = (await files.getFileInfo(["/workspace/d/a.txt"]))["/workspace/d/a.txt"];
  assert.deepEqual([info.size, info.mode, info.modifiedAt instanceof Date], [8, 640, true]);
  await files.createDirectories([{ path: "/tmp/e/f", mode: 755 }]);
  await files.moveFiles([{ src: "/workspace/d/a.txt", dest: "/tmp/e/f/a.txt" }]);
  assert.deepEqual((await files.listDirectory({ path: "/tmp/e", depth: 2 })).map((f) => [f.path, f.type]), [["/tmp/e/f", "directory"], ["/tmp/e/f/a.txt", "file"]]);
  assert.deepEqual(await files.replaceContentsDetailed([{ path: "/tmp/e/f/a.txt", oldContent: "t", newContent: "T" }]), [{ path: "/tmp/e/f/a.txt", replacedCount: 1 }]);
  await files.replaceContents([{ path: "/tmp/e/f/a.txt", oldContent: "T", newContent: "t" }]);
  assert.equal(await files.readFile("/tmp/e/f/a.txt", { offset: 2, limit: 1 }), "two\n");
  let streamed = "";
  for await (const part of files.readBytesStream("/tmp/e/f/a.txt")) streamed += Buffer.from(part).toString();
  assert.equal(streamed, "one\ntwo\n");
  await files.replaceContents([{ path: "/tmp/e/f/a.txt", oldContent: "one", newContent: "1" }]);
  await files.setPermissions([{ path: "/tmp/e/f/a.txt", mode: 600 }]);
  assert.equal(await files.readFile("/tmp/e/f/a.txt"), "1\ntwo\n");
  const found = await files.search({ path: "/tmp/e", pattern: "*.txt" });
  assert.deepEqual(found.map((f) => [f.path, f.mode]), [["/tmp/e/f/a.txt", 600]]);
  await files.deleteFiles(["/tmp/b.bin"]);
  await files.deleteDirectories(["/tmp/e"]);
  await assert.rejects(files.readFile("/tmp/e/f/a.txt"), (e) => e.statusCode === 404);

  const session = await commands.createSession({ workingDirectory: "/tmp" });
  await commands.runInSession(session, "state() { echo $V; }; V=kept; cd /");
  const second = await commands.runInSession(session, "state; pwd");
  assert.deepEqual(text(second.logs.stdout), ["kept", "/"]);
  const kinds = [];
  for await (const event of commands.runInSessionStream(session, "state")) kinds.push(event.type);
  assert.deepEqual(kinds, ["init", "ping", "stdout", "execution_complete"]);
  await commands.deleteSession(session);
  await assert.rejects(commands.runInSession(session, "true"), status(404));

  const job = await commands.run("echo begun; sleep 1000", { background: true });
  assert.equal((await commands.getCommandStatus(job.id)).running, true);
  while ((await commands.getBackgroundCommandLogs(job.id)).content === "");
  await commands.interrupt(job.id);
  let ended;
  do ended = await commands.getCommandStatus(job.id); while (ended.running);
  assert.equal(ended.exitCode, 130);
  const { content, cursor } = await commands.getBackgroundCommandLogs(job.id);
  assert.equal(content.slice(0, 6), "begun\n");
  assert.equal((await commands.getBackgroundCommandLogs(job.id, cursor)).content, "");

  assert.equal(await spy("health", made.health).ping(), true);
  assert.ok((await spy("metrics", made.metrics).getMetrics()).cpuCount > 0);
  assert.ok((await sandbox.getMetrics()).memoryTotalMiB > 0);
  assert.deepEqual(await sandbox.getEgressPolicy(), { defaultAction: "deny", egress: [] });
  await assert.rejects(sandbox.patchEgressRules([{ action: "allow", target: "example.com" }]), (e) => e.statusCode === 409);
  await sandbox.patchEgressRules([{ action: "deny", target: "example.com" }]);
  await sandbox.deleteEgressRules(["example.com"]);
  await assert.rejects(sandbox.getSignedEndpoint(8080, 2000000000), status(501));
  assert.equal(await sandbox.getEndpointUrl(8080), `http://${domain}/sandboxes/${id}/port/8080`);
  await sandbox.waitUntilReady({ readyTimeoutSeconds: 10, pollingIntervalMillis: 10 });
  assert.deepEqual((await sandbox.patchMetadata({ team: "y", stage: "test" })).metadata, { team: "y", stage: "test" });
  assert.deepEqual((await sandbox.patchMetadata({ team: "x", stage: null })).metadata, { team: "x" });

  const vault = spy("credentialVault", made.credentialVault); // and the egress policy
  assert.deepEqual(await vault.getPolicy(), { defaultAction: "deny", egress: [] });
  await vault.patchRules([{ action: "deny", target: "example.com" }]);
  await vault.deleteRules(["example.com"]);
  for (const call of [
    () => vault.create({ credentials: [], bindings: [] }), () => vault.get(), () => vault.patch({}), () => vault.delete(),
    () => vault.listCredentials(), () => vault.getCredential("a"), () => vault.listBindings(), () => vault.getBinding("a"),
  ]) await assert.rejects(call(), status(501));

  const isolation = spy("isolation", made.isolation);
  const can = await isolation.capabilities();
  assert.deepEqual([can.available, can.diff_supported, can.commit_supported], [false, false, false]);
  const workspace = { path: "/workspace" };
  for (const call of [
    () => isolation.create({ workspace }), () => isolation.attach("a"), () => isolation.list(), () => isolation.runOnce("true", "/workspace"),
    () => isolation.withSession({ workspace }, async () => assert.fail("there is a session")),
  ]) await assert.rejects(call(), /501|isolated sessions/);

  assert.ok((await sandbox.getEndpoint(8080)).endpoint.endsWith(`/sandboxes/${id}/port/8080`));
  await commands.run("echo served >/tmp/page; exec python3 -m http.server 8081 --bind 127.0.0.1 --directory /tmp", { background: true });
  const page = `${await sandbox.getEndpointUrl(8081)}/page`;
  let served;
  do served = await fetch(page, { headers: { "OPEN-SANDBOX-API-KEY": apiKey } }); while (served.status === 502); // it does not listen yet
  assert.equal(await served.text(), "served\n");
  assert.ok((await sandbox.renew(1200)).expiresAt.getTime() > Date.now() + 1100_000);

  const manager = SandboxManager.create({ connectionConfig });
  assert.deepEqual((await manager.listSandboxInfos({ metadata: { team: "x" }, states: ["Running"] })).items.map((s) => s.id), [id]);
  assert.equal((await (await Sandbox.connect({ connectionConfig, sandboxId: id })).commands.run("true")).exitCode, 0);
  assert.equal((await manager.getSandboxInfo(id)).id, id);
  assert.deepEqual((await manager.patchSandboxMetadata(id, { a: "b" })).metadata, { a: "b", team: "x" });
  await manager.renewSandbox(id, 1800);
  for (const call of [() => manager.createSnapshot(id), () => manager.getSnapshot("a"), () => manager.listSnapshots(), () => manager.deleteSnapshot("a")]) {
    await assert.rejects(call(), status(501));
  }
  await manager.pauseSandbox(id);
  await manager.resumeSandbox(id);
  await sandbox.pause();
  assert.equal((await sandbox.getInfo()).status.state, "Paused");
  const resumed = await sandbox.resume();
  assert.deepEqual(text((await resumed.commands.run("echo back")).logs.stdout), ["back"]);
  await sandbox.pause();
  assert.equal(await (await Sandbox.resume({ connectionConfig, sandboxId: id })).isHealthy(), true);

  const lifecycle = spy("sandboxes", made.sandboxes);
  const other = await lifecycle.createSandbox({ image: { uri: "host" }, entrypoint: ["sleep", "1000"], resourceLimits: { cpu: "1", memory: "64Mi" }, timeout: 60 });
  assert.equal((await lifecycle.getSandbox(other.id)).entrypoint[0], "sleep");
  assert.equal((await lifecycle.listSandboxes({ pageSize: 1 })).pagination.totalItems, 2);
  assert.deepEqual((await lifecycle.patchSandboxMetadata(other.id, { c: "d" })).metadata, { c: "d" });
  await lifecycle.pauseSandbox(other.id);
  await lifecycle.resumeSandbox(other.id);
  await lifecycle.renewSandboxExpiration(other.id, { expiresAt: new Date(Date.now() + 3600_000).toISOString() });
  assert.ok((await lifecycle.getSandboxEndpoint(other.id, 80, true)).endpoint.endsWith("/port/80"));
  await lifecycle.invalidateEndpointCache(other.id);
  await assert.rejects(lifecycle.getSignedEndpoint(other.id, 80, 2000000000), status(501));
  for (const call of [() => lifecycle.createSnapshot(other.id), () => lifecycle.getSnapshot("a"), () => lifecycle.listSnapshots(), () => lifecycle.deleteSnapshot("a")]) {
    await assert.rejects(call(), status(501));
  }
  await lifecycle.deleteSandbox(other.id);
  const third = await Sandbox.create({ connectionConfig, image: "host", extensions: {}, timeoutSeconds: null });
  assert.equal((await third.getInfo()).expiresAt ?? null, null);
  await manager.killSandbox(third.id);
  await assert.rejects(third.getInfo(), status(404));
  await manager.close();
} finally {
  await sandbox.kill();
}
await assert.rejects(sandbox.getInfo(), (e) => e.statusCode === 404);
await sandbox.close();
assert.deepEqual(missed(), [], "the SDK has methods that nothing here drives");
