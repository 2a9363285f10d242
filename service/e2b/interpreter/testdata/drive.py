"""Drives the code interpreter by E2B's SDK for Python: drive.py ID ENVD-TOKEN TRAFFIC-TOKEN."""
import asyncio
import sys

from e2b_code_interpreter import AsyncSandbox, Sandbox
from e2b import ConnectionConfig, NotFoundException, SandboxException, TimeoutException
from packaging.version import Version

box, envd, traffic = sys.argv[1:]
made = dict(
    sandbox_id=box, envd_version=Version('0.6.13'), envd_access_token=envd, sandbox_domain=None,
    connection_config=ConnectionConfig(api_key='x'), traffic_access_token=traffic,
)


def fails(kind, do):
    try:
        do()
    except kind as e:
        return str(e)
    raise AssertionError(f'no {kind}')


s = Sandbox(**made)
context = s.create_code_context(cwd='/tmp')
assert context.cwd == '/tmp' and context.language == 'python', context
assert s.run_code('x = 2; x', context=context).text == '2'
out = []
e = s.run_code('print("o")\nx + 1', context=context, on_stdout=lambda m: out.append(m.line))
assert (e.text, e.logs.stdout, out, e.execution_count) == ('3', ['o\n'], ['o\n'], 2), e
assert s.run_code('import os; os.getcwd()', context=context).text == '/tmp'
error = s.run_code('1 / 0', context=context).error
assert (error.name, error.value) == ('ZeroDivisionError', 'division by zero') and '<cell 4>' in error.traceback
assert s.run_code('os.environ["A"]', context=context, envs={'A': 'b'}).text == 'b'
fails(TimeoutException, lambda: s.run_code('import time; time.sleep(300)', context=context, timeout=1))
assert s.run_code('x', context=context, timeout=20).text == '2'
s.restart_code_context(context)
assert s.run_code('x', context=context).error.name == 'NameError'
assert context.id in [c.id for c in s.list_code_contexts()]
s.remove_code_context(context)
fails(NotFoundException, lambda: s.run_code('x', context=context))
assert 'language "julia"' in fails(SandboxException, lambda: s.run_code('x', language='julia'))


async def drive():
    s = AsyncSandbox(**made)
    contexts = await asyncio.gather(*[s.create_code_context() for _ in range(4)])
    for n, c in enumerate(contexts):
        await s.run_code(f'n = {n}', context=c)
    done = await asyncio.gather(*[s.run_code('n', context=c) for c in contexts for _ in range(4)])
    assert [e.text for e in done] == [str(n) for n in range(4) for _ in range(4)], done
    for c in contexts:
        await s.remove_code_context(c)


asyncio.run(drive())
