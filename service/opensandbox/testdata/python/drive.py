"""Drives a service by OpenSandbox's SDKs for Python: drive.py ADDRESS KEY."""
import sys
import threading
from datetime import timedelta

from code_interpreter import CodeInterpreterSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.filesystem import MoveEntry, SearchEntry, WriteEntry
from opensandbox.sync.manager import SandboxManagerSync
from opensandbox.sync.sandbox import SandboxSync

address, key = sys.argv[1:]
config = ConnectionConfigSync(domain=address, api_key=key)


def text(messages):
    return [m.text for m in messages]


def fails(do):
    try:
        do()
    except SandboxException as e:
        return str(e)
    raise AssertionError('no error')


s = SandboxSync.create('host', timeout=timedelta(minutes=10), env={'A': 'b'}, metadata={'k': 'v'}, connection_config=config)
assert s.is_healthy() and s.get_info().metadata['k'] == 'v' and s.get_info().status.state == 'Running'
run = s.commands.run('echo "$A"; echo e >&2; exit 3')
assert text(run.logs.stdout) == ['b'] and text(run.logs.stderr) == ['e'] and run.error.value == '3', run
assert s.commands.run('pwd', opts=RunCommandOpts(working_directory='/tmp')).logs.stdout[0].text == '/tmp'
s.files.write_files([WriteEntry(path=f'/tmp/in/{n}', data=f'{n}\n', mode=644) for n in range(50)])
assert s.files.read_file('/tmp/in/7') == '7\n'
s.files.move_files([MoveEntry(src='/tmp/in/7', dest='/tmp/new/dir/q')])
assert [f.path for f in s.files.search(SearchEntry(path='/tmp/new', pattern='q'))] == ['/tmp/new/dir/q']
assert s.get_metrics().cpu_count > 0
assert 'resourceRequests' in fails(lambda: SandboxSync.create('host', resource_requests={'cpu': '1'}, connection_config=config))
with SandboxSync.create('host', secure_access=True, connection_config=config) as secure:
    assert text(secure.commands.run('echo in').logs.stdout) == ['in']
    secure.kill()

c = CodeInterpreterSync.create(s, skip_health_check=True)  # it would look for Jupyter's port
first = c.codes.run('x = 20\nprint("out")\nx + 1')
assert text(first.result) == ['21'] and text(first.logs.stdout) == ['out\n'] and first.execution_count == 1, first
assert first.complete.execution_time_in_millis >= 0
assert text(c.codes.run('x + 2').result) == ['22']
error = c.codes.run('import sys; print("e", file=sys.stderr); 1 / 0')
assert (error.error.name, error.error.value) == ('ZeroDivisionError', 'division by zero'), error
assert text(error.logs.stderr) == ['e\n'] and 'Traceback' in error.error.traceback[0]
own = c.codes.create_context('python')
assert c.codes.run('x', context=own).error.name == 'NameError'
assert c.codes.get_context(own.id).language == 'python'
assert own.id in [x.id for x in c.codes.list_contexts('python')] and not c.codes.list_contexts('bash')
assert text(c.codes.run('[1, 2].map(n => n * 2)', language='javascript').result) == ['[ 2, 4 ]']
assert text(c.codes.run('echo $((1 + 1))', language='bash').logs.stdout) == ['2\n']
assert 'no kernel runs it' in fails(lambda: c.codes.create_context('go'))

begun = threading.Event()
ended = []
sleep = 'import time\nprint("begun", flush=True)\ntime.sleep(300)'
handlers = ExecutionHandlersSync(on_stdout=lambda _: begun.set())
waits = threading.Thread(target=lambda: ended.append(c.codes.run(sleep, context=own, handlers=handlers)))
waits.start()
assert begun.wait(60)
c.codes.interrupt(own.id)
waits.join(60)
assert ended[0].error.name == 'KeyboardInterrupt', ended
c.codes.delete_context(own.id)
assert 'no context' in fails(lambda: c.codes.get_context(own.id))
c.codes.delete_contexts('python')
assert c.codes.run('x').error.name == 'NameError'

manager = SandboxManagerSync.create(config)
manager.get_sandbox_info(s.id)
s.kill()
s.close()
