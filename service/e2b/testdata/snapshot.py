"""Snapshots and forks with memory, of a service on gVisor: snapshot.py ADDRESS KEY OTHER."""

import os
import sys

address, key, other = sys.argv[1:]
os.environ.update(E2B_API_KEY=key, E2B_API_URL="http://" + address, E2B_SANDBOX_URL="http://" + address)

from e2b import Sandbox  # noqa: E402
from e2b.exceptions import SandboxException  # noqa: E402


def fails(what, do, *args, **kwargs):
    try:
        do(*args, **kwargs)
    except what as e:
        return str(e)
    raise AssertionError(f"{do} has not failed")


COUNT = "read -r n </tmp/n; echo $n"
box = Sandbox.create(timeout=120, metadata={"of": "first"})
loop = "i=0; while sleep 0.05; do i=$((i+1)); echo $i >/tmp/new; mv /tmp/new /tmp/n; done"
box.commands.run(f"setsid bash -c '{loop}' >/dev/null 2>&1 </dev/null &")
box.files.write("/tmp/file", "kept")
box.commands.run("until [ -s /tmp/n ]; do sleep 0.05; done")
typed = box.commands.run("while read -r x; do echo got $x; done", background=True, stdin=True, timeout=0)
snapshot = box.create_snapshot(name="one")
assert snapshot.names == ["one"], snapshot
assert snapshot.snapshot_id not in [b.sandbox_id for b in Sandbox.list().next_items()]
box.files.write("/tmp/file", "later")
made = [Sandbox.create(template=snapshot.snapshot_id, timeout=60, metadata={"n": str(n)}) for n in range(2)]
for n, copy in enumerate(made):
    assert copy.files.read("/tmp/file") == "kept" and copy.get_info().metadata == {"n": str(n)}, copy.get_info()
    first = int(copy.commands.run(COUNT).stdout)  # the loop runs on
    copy.commands.run(f"until {COUNT.replace('echo $n', '[ $n -gt ' + str(first) + ' ]')}; do sleep 0.05; done")
for copy in [*made, box]:  # what a client has started runs on too, here and there
    assert typed.pid in [p.pid for p in copy.commands.list()], copy.commands.list()
    again = copy.commands.connect(typed.pid)
    copy.commands.send_stdin(typed.pid, copy.sandbox_id + "\n")
    out, _, _ = next(iter(again))
    assert out == f"got {copy.sandbox_id}\n", out
made[0].commands.kill(typed.pid)
made[0].files.write("/tmp/file", "own")
assert made[1].files.read("/tmp/file") == "kept"

box.kill()  # the snapshot stays

forks = made[0].fork(count=2)
assert [f.files.read("/tmp/file") for f in forks] == ["own", "own"] and len({f.sandbox_id for f in forks}) == 2, forks

found = Sandbox.list_snapshots(sandbox_id=box.sandbox_id).next_items()
assert [s.snapshot_id for s in found] == [snapshot.snapshot_id], found
assert "environment" in fails(SandboxException, Sandbox.create, template=snapshot.snapshot_id, envs={"A": "b"})
assert "network" in fails(SandboxException, Sandbox.create, template=snapshot.snapshot_id, network={"allow_out": ["example.com"]})
# Another owner has none of it.
assert Sandbox.list_snapshots(api_key=other).next_items() == []
fails(SandboxException, Sandbox.create, template=snapshot.snapshot_id, api_key=other)
assert not Sandbox.delete_snapshot(snapshot.snapshot_id, api_key=other)
assert Sandbox.delete_snapshot(snapshot.snapshot_id) and not Sandbox.delete_snapshot(snapshot.snapshot_id)
assert made[1].files.read("/tmp/file") == "kept"
