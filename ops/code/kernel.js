// The JavaScript kernel of package code: it reads a cell a line from descriptor 4, and writes frames, a
// line of JSON each, to 3. Programs that cells start write to 1 and 2, which are one pipe.
'use strict'
const fs = require('fs'), net = require('net'), util = require('util'), vm = require('vm')

// A script ends by SIGINT. The REPL's own option for it leaves the signal its default action.
// What the REPL uses it takes when it is loaded.
const runScript = vm.Script.prototype.runInThisContext
vm.Script.prototype.runInThisContext = function (options) {
  return runScript.call(this, { ...options, breakOnSigint: true })
}

const repl = require('repl')
const { PassThrough, Writable } = require('stream')
const { StringDecoder } = require('string_decoder')
const strip = require('module').stripTypeScriptTypes
const most = 6 << 20
let cell = 0, busy = false, held = null, flushed = 0, writes = 0

function write(fd, text) {
  for (let rest = Buffer.from(text); rest.length > 0;) {
    try {
      rest = rest.subarray(fs.writeSync(fd, rest))
    } catch (e) {
      if (e.code !== 'EAGAIN') throw e
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}

const send = (type, more) => write(3, JSON.stringify({ cell, type, ...more }) + '\n')

// Output is sent at once at first, and then when it is much, or 20 ms have passed, or the event loop
// has its turn.
function flush() {
  if (held) send(held.kind, { text: held.text })
  held = null
  flushed = Date.now()
}

function output(kind) {
  const decoder = new StringDecoder('utf8')
  return new Writable({
    write(chunk, _, done) {
      if (held && held.kind !== kind) flush()
      if (!held) {
        held = { kind, text: '' }
        setImmediate(flush).unref()
      }
      held.text += decoder.write(chunk)
      if (++writes < 64 || held.text.length > 1 << 14 || Date.now() - flushed > 20) flush()
      done()
    },
  })
}

for (const kind of ['stdout', 'stderr']) {
  const stream = output(kind)
  Object.defineProperty(process, kind, { configurable: true, get: () => stream })
}
globalThis.console = new console.Console(process.stdout, process.stderr)
const complain = (e) => process.stderr.write(`Uncaught ${util.inspect(e)}\n`)
process.on('uncaughtException', complain)
process.on('unhandledRejection', complain)

const printed = new PassThrough()
printed.on('data', (text) => process.stderr.write(text))
const server = repl.start({
  prompt: '', input: new PassThrough(), output: printed, terminal: false, useGlobal: true,
})
let fail = complain // takes an error that the domain of the REPL gets, such as that of a cell
server._domain?.removeAllListeners('error').on('error', (e) => fail(e))
const interrupted = () => Object.assign(new Error('the cell was interrupted'), { name: 'KeyboardInterrupt', stack: '' })
process.on('SIGINT', () => busy && fail(interrupted()))

// imports returns code whose import declarations, which no script can have, are calls of import().
function imports(code) {
  const names = (text) => text.replace(/\s+as\s+/g, ': ')
  return code.replace(/^([ \t]*)import\s+(?:([\w$*{},\s]+?)\s+from\s+)?(['"][^'"\n]+['"])[ \t]*;?/gm, (_, indent, what, from) => {
    const all = `await import(${from})`
    if (!what) return `${indent}${all};`
    const space = /\*\s+as\s+([\w$]+)/.exec(what), some = /\{[^}]*\}/.exec(what), first = /^[\w$]+/.exec(what)
    const parts = []
    if (first) parts.push(`{ default: ${first[0]} } = ${all}`)
    if (space) parts.push(`${space[1]} = ${all}`)
    if (some) parts.push(`${names(some[0])} = ${all}`)
    return `${indent}var ${parts.join(', ')};`
  })
}

function evaluate(q) {
  return new Promise((resolve, reject) => {
    fail = reject
    const code = imports(q.typescript && strip ? strip(q.code) : q.code)
    server.eval(code + '\n', server.context, `<cell ${q.count}>`, (e, value) => (e ? reject(e) : resolve({ value })))
  })
}

function failed(e, q) {
  if (e instanceof repl.Recoverable) e = e.err
  if (e?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') e = interrupted()
  let value = String(e?.message ?? util.inspect(e)).slice(0, most / 8)
  if (q.typescript && !strip && e?.name === 'SyntaxError') value += `: node ${process.version} runs no types: 22.13 and later do`
  const traceback = String(e?.stack || value).slice(0, most / 8).split('\n')
  send('error', { name: String(e?.name ?? 'Error').slice(0, 1000), value, traceback })
}

async function serve(q) {
  const before = Object.fromEntries(Object.keys(q.env).map((name) => [name, process.env[name]]))
  cell = q.cell
  writes = 0
  Object.assign(process.env, q.env)
  busy = true
  try {
    if (q.cwd) process.chdir(q.cwd)
    const { value } = await evaluate(q)
    flush()
    const text = typeof value === 'string' ? value : util.inspect(value)
    if (value !== undefined) send('result', { data: { 'text/plain': text.slice(0, most / 8) }, main: true })
  } catch (e) {
    flush()
    failed(e, q)
  }
  busy = false
  fail = complain
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  flush()
  write(2, q.mark)
  send('done')
  cell = 0
}

const requests = require('readline').createInterface({ input: new net.Socket({ fd: 4, readable: true, writable: false }) })
let turn = Promise.resolve()
requests.on('line', (line) => {
  const q = JSON.parse(line)
  if (!q.interrupt) turn = turn.then(() => serve(q))
  else if (busy && cell === q.interrupt) fail(interrupted())
})
requests.on('close', () => process.exit())
send('ready')
