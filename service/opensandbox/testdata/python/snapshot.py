"""Snapshots by OpenSandbox's SDK, of a service on gVisor: snapshot.py ADDRESS KEY OTHER."""
import sys
from datetime import timedelta

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxException
from opensandbox.models.sandboxes import SnapshotFilter
from opensandbox.sync.manager import SandboxManagerSync
from opensandbox.sync.sandbox import SandboxSync

address, key, other = sys.argv[1:]
config, others = (ConnectionConfigSync(domain=address, api_key=k) for k in (key, other))


def fails(text, do, *args, **kwargs):
    try:
        do(*args, **kwargs)
    except SandboxException as e:
        assert text in str(e), e
        return
    raise AssertionError('no error')


def out(box, command, session=None):
    run = box.commands.run(command) if session is None else box.commands.run_in_session(session, command)
    return ''.join(m.text for m in run.logs.stdout).strip()


box = SandboxSync.create('host', timeout=timedelta(minutes=5), resource={'pids': '500'}, connection_config=config)
session = box.commands.create_session()
out(box, 'X=5; cd /tmp; echo kept >file', session)
shell = out(box, 'echo $$', session)
snapshot = box.create_snapshot('one')
assert snapshot.status.state == 'Ready' and snapshot.sandbox_id == box.id and snapshot.name == 'one', snapshot
box.kill()

made = [SandboxSync.create(snapshot_id=snapshot.id, timeout=timedelta(minutes=2), resource={'pids': '500'}, connection_config=config) for _ in range(2)]
for copy in made:  # its shell goes on
    assert out(copy, 'echo $X $PWD $(cat file) $$', session) == f'5 /tmp kept {shell}'
out(made[0], 'echo own >/tmp/file')
assert out(made[1], 'cat /tmp/file') == 'kept'

manager, theirs = SandboxManagerSync.create(config), SandboxManagerSync.create(others)
assert [s.id for s in manager.list_snapshots(SnapshotFilter(sandbox_id=box.id)).snapshot_infos] == [snapshot.id]
assert manager.get_snapshot(snapshot.id).name == 'one'
assert theirs.list_snapshots(SnapshotFilter()).snapshot_infos == []
for call in (theirs.get_snapshot, theirs.delete_snapshot):
    fails('no snapshot', call, snapshot.id)
fails('no snapshot', SandboxSync.create, snapshot_id=snapshot.id, connection_config=others)
fails('limits', SandboxSync.create, snapshot_id=snapshot.id, resource={'pids': '7'}, connection_config=config)
manager.delete_snapshot(snapshot.id)
fails('no snapshot', manager.get_snapshot, snapshot.id)
assert out(made[1], 'cat /tmp/file') == 'kept'
for copy in made:
    copy.kill()
