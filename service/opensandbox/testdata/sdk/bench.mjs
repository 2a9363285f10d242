// Measures the official SDK: node bench.mjs HOST:PORT prints {"create": [ms, ...], "run": [ms, ...]}.
import { ConnectionConfig, Sandbox } from "@alibaba-group/opensandbox";

const connectionConfig = new ConnectionConfig({ domain: process.argv[2], protocol: "http" });
const times = { create: [], run: [] };
const took = async (list, f) => {
  const begin = performance.now();
  const result = await f();
  list.push(performance.now() - begin);
  return result;
};
for (let round = 0; round < 10; round++) {
  const sandbox = await took(times.create, () => Sandbox.create({ connectionConfig, image: "host" }));
  try {
    for (let n = 0; n < 50; n++) {
      const r = await took(times.run, () => sandbox.commands.run("true"));
      if (r.exitCode !== 0) throw new Error(`exit code ${r.exitCode}`);
    }
  } finally {
    await sandbox.kill();
    await sandbox.close();
  }
}
console.log(JSON.stringify(times));
