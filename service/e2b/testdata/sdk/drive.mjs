// Drives the control API by E2B's SDK for JavaScript: drive.mjs HOST:PORT KEY. An error ends it.
import assert from 'node:assert/strict'
import { Sandbox, SandboxError, SandboxNotFoundError, Secret, Template, Volume, VolumeError } from 'e2b'

const [address, key] = process.argv.slice(2)
process.env.E2B_API_URL = process.env.E2B_SANDBOX_URL = process.env.E2B_VOLUME_API_URL = `http://${address}`
process.env.E2B_API_KEY = key

const fails = (call, kind, text) =>
  assert.rejects(call, e => e instanceof kind && e.message.includes(text) || assert.fail(`${e.constructor.name}: ${e.message}`))
const ids = async list => {
  const found = []
  while (list.hasNext) found.push(...(await list.nextItems()).map(s => s.sandboxId))
  return found
}

const metadata = { 'a b': 'c&d', plain: 'ä' }
const box = await Sandbox.create('base', { timeoutMs: 60_500, metadata })
assert.match(box.sandboxId, /^[a-z0-9]+$/)
const info = await box.getInfo()
assert.deepEqual(info.metadata, metadata)
assert.equal(info.state, 'running')
assert.equal(Math.round((info.endAt - info.startedAt) / 1000), 61)
assert.deepEqual(await ids(Sandbox.list({ query: { metadata, state: ['running'] } })), [box.sandboxId])
assert.deepEqual(await ids(Sandbox.list({ query: { metadata, state: ['paused'] } })), [])
await fails(() => Sandbox.create('nope'), SandboxError, '404')
await fails(() => Sandbox.connect('aaaaaaaaaaaa'), SandboxNotFoundError, 'aaaaaaaaaaaa')

await box.setTimeout(5_000)
assert.ok((await box.getInfo()).endAt < info.endAt)
assert.equal((await Sandbox.connect(box.sandboxId, { timeoutMs: 90_000 })).sandboxId, box.sandboxId)
assert.ok((await box.getInfo()).endAt > info.endAt)

assert.equal(await box.pause(), true)
assert.equal(await box.pause(), false)
assert.equal((await box.getInfo()).state, 'paused')
await box.connect()
assert.equal((await box.getInfo()).state, 'running')
assert.ok((await box.getMetrics())[0].memTotal > 0)

await fails(() => Sandbox.create({ network: { denyOut: ['10.0.0.0/8'] } }), SandboxError, 'denyOut')
await fails(() => box.updateNetwork({ allowOut: ['a.example'] }), SandboxError, 'allowOut')
await fails(() => box.fork(), SandboxError, '--cow')
await fails(() => box.createSnapshot(), SandboxError, '501')
await fails(() => Secret.list().nextItems(), Error, '501')
assert.equal(await Template.exists('nope'), false)
assert.equal(await Template.exists('base'), true)
assert.equal(box.getHost(3000), `3000-${box.sandboxId}.localhost:${address.split(':')[1]}`)

assert.equal(await box.kill(), true)
assert.equal(await box.kill(), false)
assert.equal(await Sandbox.kill(box.sandboxId), false)
await fails(() => box.getInfo(), SandboxNotFoundError, box.sandboxId)

const vol = await Volume.create('data')
assert.equal((await vol.writeFile('/a/b.bin', new Uint8Array([0, 255, 10]), { force: true })).type, 'file')
const mounted = await Sandbox.create({ volumeMounts: { '/mnt/data': vol } })
assert.equal((await mounted.commands.run('mkdir /mnt/data/made; stat -c %s /mnt/data/a/b.bin')).stdout, '3\n')
assert.deepEqual((await vol.list('/')).map(i => `${i.path} ${i.type}`).sort(), ['/a directory', '/made directory'])
assert.deepEqual([...(await vol.readFile('/a/b.bin', { format: 'bytes' }))], [0, 255, 10])
assert.equal((await vol.makeDir('/x/y', { force: true, mode: 0o711 })).mode, 0o711)
assert.equal((await vol.updateMetadata('/x', { mode: 0o700 })).mode, 0o700)
await vol.remove('/x')
assert.equal(await vol.exists('/x/y'), false)
await fails(() => Volume.destroy(vol.volumeId), VolumeError, '409')
await mounted.kill()
assert.deepEqual((await Volume.list()).map(v => v.name), ['data'])
assert.equal((await Volume.getInfo(vol.volumeId)).name, 'data')
assert.equal(await Volume.destroy(vol.volumeId), true)
assert.equal(await Volume.destroy(vol.volumeId), false)
