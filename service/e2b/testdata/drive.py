"""Drives the control API by E2B's SDK for Python: drive.py HOST:PORT KEY OTHER-KEY. An error ends it."""

import os
import sys
import time

address, key, other = sys.argv[1:4]
for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"):
    os.environ[name] = "http://" + address
os.environ["E2B_API_KEY"] = key

import httpx  # noqa: E402
from e2b import (  # noqa: E402
    AuthenticationException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    Volume,
    VolumeException,
    VolumePathNotFoundException,
)


def raises(kind, text, call, *args, **kwargs):
    try:
        got = call(*args, **kwargs)
    except kind as e:
        assert text in str(e), e
        return
    raise AssertionError(f"{call}: got {got}, want {kind.__name__} with {text!r}")


def ids(paginator):
    found = []
    while paginator.has_next:
        found += [s.sandbox_id for s in paginator.next_items()]
    return found


# Create, describe, find by metadata.
odd = {"a b": "c&d=e", "plain": "x", "percent": "100%25"}
box = Sandbox.create(timeout=60, metadata=odd, envs={"A": "1"})
info = box.get_info()
assert info.sandbox_id == box.sandbox_id and info.state == SandboxState.RUNNING, info
assert info.metadata == odd and info.template_id == "base" and info.envd_version == "0.6.13", info
assert 59 < (info.end_at - info.started_at).total_seconds() < 62, info
assert ids(Sandbox.list(SandboxQuery(metadata={"a b": "c&d=e", "percent": "100%25"}))) == [box.sandbox_id]
assert ids(Sandbox.list(SandboxQuery(metadata={"a b": "c&d=e", "plain": "y"}))) == []
assert ids(Sandbox.list(SandboxQuery(started_after=info.started_at))) == [box.sandbox_id]
second = Sandbox.create("code-interpreter-v1", timeout=60, metadata={"plain": "x"}, idempotency_key="one")
again = Sandbox.create("code-interpreter-v1", timeout=60, metadata={"plain": "x"}, idempotency_key="one")
assert second.sandbox_id == again.sandbox_id
assert ids(Sandbox.list(SandboxQuery(metadata={"plain": "x"}), limit=1)) == [second.sandbox_id, box.sandbox_id]
assert ids(Sandbox.list(SandboxQuery(metadata={"plain": "x"}), limit=1, order="asc")) == [box.sandbox_id, second.sandbox_id]
assert second.kill() and not second.kill()
raises(SandboxNotFoundException, second.sandbox_id, second.get_info)
raises(SandboxException, "404", Sandbox.create, "nope")

# The lifetime: connect never shortens it, set_timeout does.
box.set_timeout(600)
Sandbox.connect(box.sandbox_id, timeout=10)
assert (box.get_info().end_at - info.started_at).total_seconds() > 590
box.set_timeout(30)
assert (box.get_info().end_at - info.started_at).total_seconds() < 50
raises(SandboxNotFoundException, "aaaaaaaaaaaa", Sandbox.connect, "aaaaaaaaaaaa")
short = Sandbox.create(timeout=1)
slept = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause"})
deadline = time.monotonic() + 60
while slept.get_info().state != SandboxState.PAUSED or short.sandbox_id in ids(Sandbox.list()):
    assert time.monotonic() < deadline, "a sandbox has outlived its time"
    time.sleep(0.1)
raises(SandboxNotFoundException, short.sandbox_id, short.get_info)
assert not short.is_running() and not slept.is_running()
assert slept.get_info().lifecycle["on_timeout"] == "pause" and Sandbox.kill(slept.sandbox_id)

# Pause and resume.
assert box.pause() and not box.pause()
assert box.get_info().state == SandboxState.PAUSED and not box.is_running()
assert box.sandbox_id in ids(Sandbox.list(SandboxQuery(state=[SandboxState.PAUSED])))
box.connect(timeout=60)
assert box.get_info().state == SandboxState.RUNNING

# Metrics, of now.
[metric] = box.get_metrics()
assert metric.mem_total > metric.mem_used > 0 and metric.cpu_count > 0, metric

# The network: names, or a reason.
raises(SandboxException, "--allow-host", Sandbox.create, allow_internet_access=True)
raises(SandboxException, "allowOut", Sandbox.create, network={"allow_out": ["10.0.0.0/8"]})
raises(SandboxException, "rules", Sandbox.create, network={"rules": {"a.example": [{"transform": {"headers": {"A": "b"}}}]}})
raises(SandboxException, "iam", Sandbox.create, iam={"tokens": {"t": {"audience": "a", "token_type": "JWT-SVID"}}})
Sandbox.create(allow_internet_access=False).kill()
# what the request denies itself it does not lack
Sandbox.create(allow_internet_access=True, network={"deny_out": ["0.0.0.0/0"]}).kill()
raises(SandboxException, "fork", box.fork)
raises(SandboxException, "--runtime gvisor", box.create_snapshot)

# Another owner's key, and none.
raises(SandboxNotFoundException, box.sandbox_id, Sandbox.connect, box.sandbox_id, api_key=other)
assert not Sandbox.kill(box.sandbox_id, api_key=other)
mine = Sandbox.create(timeout=60, api_key=other)
assert ids(Sandbox.list(api_key=other)) == [mine.sandbox_id] and mine.sandbox_id in ids(Sandbox.list())
raises(AuthenticationException, "E2B_API_KEY", Sandbox.list(api_key="wrong").next_items)


# Ports need the token of the sandbox, by header and by host name; the server inside gets neither it nor the key.
def port(token, **headers):
    if token:
        headers["e2b-traffic-access-token"] = token
    return httpx.get(f"http://{address}/a%2fb?c", headers=headers)


named = {"e2b-sandbox-id": box.sandbox_id, "e2b-sandbox-port": "3000"}
assert port("", **named).status_code == 403
assert port(mine.traffic_access_token, **named).status_code == 403
closed = port(box.traffic_access_token, **named)
assert closed.status_code == 502 and closed.json()["port"] == 3000, closed.text
hosted = port(box.traffic_access_token, host=f"3000-{box.sandbox_id}.localhost")
assert hosted.status_code == 502 and hosted.json()["sandboxId"] == box.sandbox_id, hosted.text
assert mine.kill(api_key=other) and box.kill()
assert port(box.traffic_access_token, **named).json()["message"] == "The sandbox was not found"

# Volumes outlive sandboxes, and are their owner's.
vol = Volume.create("data")
raises(VolumeException, "409", Volume.create, "data")
raises(VolumeException, "name", Volume.create, "a/b")
assert vol.write_file("/d/e/hello.txt", "hello", force=True).size == 5
raises(VolumePathNotFoundException, "/x/y", vol.write_file, "/x/y", "hello")
assert vol.make_dir("/new", mode=0o700).mode == 0o700
assert {i.path for i in vol.list("/", depth=3)} == {"/d", "/d/e", "/d/e/hello.txt", "/new"}
assert vol.read_file("/d/e/hello.txt") == "hello" and vol.read_file("/d/e/hello.txt", format="bytes") == b"hello"
assert vol.update_metadata("/d/e/hello.txt", mode=0o755).mode == 0o755
raises(VolumeException, "uid", vol.update_metadata, "/d", uid=12345)
with_volume = Sandbox.create(timeout=60, volume_mounts={"/mnt/data": vol})
assert with_volume.commands.run("cat /mnt/data/d/e/hello.txt && ln -s /etc/passwd /mnt/data/link && echo more > /mnt/data/more").stdout == "hello"
assert vol.read_file("/more") == "more\n" and vol.get_info("/link").target == "/etc/passwd"
raises(VolumeException, "link", vol.read_file, "/link")
raises(VolumeException, "409", Volume.destroy, vol.volume_id)
raises(SandboxException, "not found", Sandbox.create, volume_mounts={"/mnt/data": "data"}, api_key=other)
raises(SandboxException, "absolute", Sandbox.create, volume_mounts={"data": vol})
yours = Volume.create("data", api_key=other)
assert yours.volume_id != vol.volume_id and not yours.exists("/more") and vol.exists("/more")
assert [v.name for v in Volume.list(api_key=other)] == ["data"] and Volume.connect(yours.volume_id, api_key=other).name == "data"
assert not Volume.destroy(vol.volume_id, api_key=other)
raises(AuthenticationException, "token", vol.list, "/", token=yours.token)
with_volume.kill()
vol.remove("/d")
assert not vol.exists("/d/e/hello.txt")
assert Volume.destroy(vol.volume_id) and not Volume.destroy(vol.volume_id) and Volume.destroy(yours.volume_id)
assert Volume.list() == []
