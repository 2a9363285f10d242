// The backend against a real service, and an agent with a fake model of LangChain's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { FakeStreamingChatModel } from "@langchain/core/utils/testing";
import { CompositeBackend, createDeepAgent, isSandboxBackend } from "deepagents";
import { WolffiaError, WolffiaSandbox } from "wolffia-deepagents";

let box;
before(async () => { box = await WolffiaSandbox.create({ env: { A: "1" }, ttl: 3600 }); });
after(() => box.destroy());

test("execute", async () => {
  assert.ok(isSandboxBackend(box));
  assert.deepEqual(await box.execute("echo out $A; echo err >&2; echo out; exit 3"),
    { output: "out 1\nerr\nout\n", exitCode: 3, truncated: false });
  assert.equal((await box.execute(`x=${"y".repeat(300_000)}; echo \${#x}`)).output, "300000\n");
  const short = new WolffiaSandbox(box.id, { timeout: 0.3, maxOutput: 10 });
  const late = await short.execute("echo begun; sleep 1000");
  assert.equal(late.exitCode, 124);
  assert.match(late.output, /^begun\n[^]*was stopped/);
  assert.equal((await short.execute("yes | head -n 100")).truncated, true);
});

test("files", async () => {
  const big = Buffer.alloc(20 << 20, "abc");
  assert.deepEqual(
    (await box.uploadFiles([["/tmp/d/bytes", new Uint8Array([0, 255])], ["/tmp/big", big], ["/usr/x", big.subarray(0, 1)], ["/etc", big.subarray(0, 1)], ["x", big.subarray(0, 1)]])).map((r) => r.error),
    [null, null, "permission_denied", "is_directory", "invalid_path"]);
  const read = await box.downloadFiles(["/tmp/d/bytes", "/tmp/big", "/none", "/etc", "/workspace/secret"]);
  assert.deepEqual(read.map((r) => r.error), [null, null, "file_not_found", "is_directory", "file_not_found"]);
  assert.deepEqual(read[0].content, new Uint8Array([0, 255]));
  assert.ok(Buffer.from(read[1].content).equals(big));
});

test("the methods of BaseSandbox", async () => {
  assert.equal((await box.write("/tmp/own/a.txt", "one\ntwo\n")).error, undefined);
  assert.match(String((await box.read("/tmp/own/a.txt")).content), /two/);
  assert.equal((await box.edit("/tmp/own/a.txt", "two", "three")).error, undefined);
  assert.deepEqual((await box.grep("three", "/tmp/own")).matches.map((m) => [m.path, m.line]), [["/tmp/own/a.txt", 2]]);
  assert.equal((await box.ls("/tmp/own")).files.length, 1);
});

test("an agent", async () => {
  const call = (name, args) => new AIMessage({ content: "", tool_calls: [{ name, args, id: `${name}-1`, type: "tool_call" }] });
  // LangChain's fake model repeats its first answer: this one gives the next each time.
  const model = new FakeStreamingChatModel({ responses: [] });
  const answers = [call("execute", { command: "echo made > /tmp/made; echo hello $((6 * 7))" }), new AIMessage("done")];
  model.bindTools = () => model;
  model._generate = async () => { const message = answers.shift(); return { generations: [{ text: "", message }] }; };
  const backend = new CompositeBackend(box, {}, { artifactsRoot: "/tmp" });
  const agent = createDeepAgent({ model, backend });
  const { messages } = await agent.invoke({ messages: [new HumanMessage("go")] });
  assert.match(String(messages.find((m) => m.getType() === "tool").content), /hello 42/);
  assert.equal(messages.at(-1).content, "done");
  assert.equal((await box.execute("cat /tmp/made")).output, "made\n");
});

test("errors", async () => {
  await assert.rejects(new WolffiaSandbox("aaaaaaaaaaaa").execute("true"), (e) => e instanceof WolffiaError && e.code === "notFound" && e.status === 404);
  await assert.rejects(WolffiaSandbox.create({ key: "0123456789abcdef-wrong" }), /key/);
  assert.throws(() => new WolffiaSandbox("x", { address: "unix:/sock" }), /http:/);
});
