// Drives the code interpreter by E2B's SDK: node drive.mjs ID ENVD-TOKEN TRAFFIC-TOKEN. E2B_SANDBOX_URL says where it is.
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'

const [sandboxId, envdAccessToken, trafficAccessToken] = process.argv.slice(2)
const s = new Sandbox({ sandboxId, envdVersion: '0.6.13', envdAccessToken, trafficAccessToken, apiKey: 'x' })

assert.equal((await s.runCode('x = 1; x')).text, '1')
const more = await s.runCode('x += 1; x')
assert.equal(more.text, '2')
assert.equal(more.executionCount, 2)
assert.equal((await s.runCode("'a' + 'b'")).text, 'ab')

const out = [], errors = [], results = []
const seen = await s.runCode('import sys; print("o"); print("e", file=sys.stderr); 3', {
  onStdout: (m) => out.push(m.line), onStderr: (m) => errors.push(m.line), onResult: (r) => results.push(r.text),
})
assert.deepEqual([out, errors, results], [['o\n'], ['e\n'], ['3']])
assert.deepEqual(seen.logs, { stdout: ['o\n'], stderr: ['e\n'] })

const bad = await s.runCode('def f():\n  return y\nf()')
assert.equal(bad.error.name, 'NameError')
assert.equal(bad.error.value, "name 'y' is not defined")
assert.match(bad.error.traceback, /Traceback[^]*return y/)

const rich = await s.runCode('class A:\n  def _repr_html_(self): return "<b>"\n  def _repr_png_(self): return b"png"\n  def __repr__(self): return "A"\ndisplay(A())\nA()')
assert.equal(rich.results.length, 2)
assert.deepEqual(rich.results.map((r) => [r.text, r.html, r.png, r.isMainResult]), [['A', '<b>', 'cG5n', false], ['A', '<b>', 'cG5n', true]])
assert.deepEqual(rich.results[0].extra, {})

assert.equal((await s.runCode('import os; os.environ["FOO"]', { envs: { FOO: 'bar' } })).text, 'bar')
assert.equal((await s.runCode('os.environ.get("FOO", "none")')).text, 'none')
assert.deepEqual((await s.runCode('echo $FOO', { language: 'bash', envs: { FOO: 'bar' } })).logs.stdout, ['bar\n'])
assert.deepEqual((await s.runCode('console.log("Hello")', { language: 'js' })).logs.stdout, ['Hello\n'])
assert.equal((await s.runCode("await Promise.resolve('late')", { language: 'javascript' })).text, 'late')
await assert.rejects(s.runCode('1', { language: 'r' }), /501/)

let contexts = await s.listCodeContexts()
assert.ok(['python', 'javascript'].every((l) => contexts.some((c) => c.language === l)))
const context = await s.createCodeContext({ cwd: '/tmp' })
assert.equal(context.cwd, '/tmp')
contexts = await s.listCodeContexts()
assert.equal(contexts.at(-1).id, context.id)
assert.equal((await s.runCode('x', { context })).error.name, 'NameError')
assert.equal((await s.runCode('x = 5; os = __import__("os"); os.getcwd()', { context })).text, '/tmp')
await s.restartCodeContext(context)
assert.equal((await s.runCode('x', { context })).error.name, 'NameError')
await s.removeCodeContext(context)
await assert.rejects(s.runCode('x', { context }), /not found/)
await assert.rejects(s.createCodeContext({ language: 'r' }), /501/)

await assert.rejects(s.runCode('import time; time.sleep(300)', { timeoutMs: 1000 }))
assert.equal((await s.runCode('x + 1', { timeoutMs: 20000 })).text, '3')
const dead = await s.runCode('os._exit(3)')
assert.equal(dead.error.name, 'KernelDied')
assert.equal((await s.runCode('1 + 1')).text, '2')
