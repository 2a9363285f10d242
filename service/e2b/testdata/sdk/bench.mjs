// Measures E2B's SDK for JavaScript: bench.mjs HOST:PORT ROUNDS. Prints ms as JSON.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

const [address, rounds] = process.argv.slice(2)
process.env.E2B_API_URL = process.env.E2B_SANDBOX_URL = `http://${address}`
process.env.E2B_API_KEY = 'any'

const took = async do_ => {
  const begin = performance.now()
  const got = await do_()
  return [performance.now() - begin, got]
}
const all = { create: [], run: [], up: [], down: [] }
for (let n = 0; n < Number(rounds); n++) {
  const [ms, box] = await took(() => Sandbox.create())
  if (n > 2) all.create.push(ms)
  await box.kill()
  await new Promise(done => setTimeout(done, 100)) // a pool fills
}
const box = await Sandbox.create()
for (let n = 0; n < 100; n++) {
  const [ms] = await took(() => box.commands.run('true'))
  if (n > 9) all.run.push(ms)
}
const data = new Uint8Array(100e6)
for (let n = 0; n < 5; n++) {
  all.up.push((await took(() => box.files.write('/tmp/large', data)))[0])
  const [ms, got] = await took(() => box.files.read('/tmp/large', { format: 'bytes' }))
  assert.equal(got.length, data.length)
  all.down.push(ms)
}
await box.kill()
console.log(JSON.stringify(all))
