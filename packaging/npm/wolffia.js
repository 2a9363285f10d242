#!/usr/bin/env node
// Starts the wolffia of this machine's architecture, which an optional dependency carries.
'use strict'
const path = require('path')
const { spawn } = require('child_process')

const fail = (text) => {
  console.error('wolffia: ' + text)
  process.exit(125)
}
if (process.platform !== 'linux') fail('runs on Linux only, this is ' + process.platform)
const name = 'wolffia-linux-' + process.arch
let program
try {
  program = require.resolve(name + '/bin/wolffia')
} catch {
  fail('the package ' + name + ' is missing: install wolffia again, without --omit=optional')
}
// What lies in the project a sandbox may change, and it would then run outside.
const place = program.slice(0, program.indexOf(path.sep + 'node_modules' + path.sep))
if ((process.cwd() + path.sep).startsWith(place + path.sep)) {
  fail(program + ' is in the project, where a sandbox could replace it: npm uninstall wolffia, then npm install -g wolffia')
}
if (process.execve) process.execve(program, ['wolffia', ...process.argv.slice(2)], process.env) // Node 22.15
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit', argv0: 'wolffia' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']) {
  // The terminal sends these to the child as well.
  process.on(signal, () => { if (!process.stdin.isTTY || signal === 'SIGTERM') child.kill(signal) })
}
child.on('error', (err) => fail('cannot start ' + program + ': ' + err.message))
child.on('exit', (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  } else process.exit(code)
})
