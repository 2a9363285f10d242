"""The client against a real service."""

import asyncio
import time

import pytest

import wolffia
from wolffia import AsyncClient, Client, Output, Owner, Result, Sandbox


def test_run(box: Sandbox) -> None:
    r = box.run('cat; echo "$A" "$PWD" >&2; exit 3', cwd="/tmp", env={"A": "1"}, stdin="in")
    assert (r.exit_code, r.stdout, r.stderr) == (3, "in", "1 /tmp\n")
    assert box.run(["printf", r"\377"]).stdout_bytes == b"\xff"
    assert box.run(["echo", "$A; b"]).stdout == "$A; b\n"
    assert box.run(["printf", "12345"], max_bytes=2).stdout_dropped == 3
    r = box.run(["no-such-program"])
    assert r.exit_code == 127 and "no-such-program" in r.start_error
    assert box.run("x=" + "y" * 300_000 + "; echo ${#x}").stdout == "300000\n"
    with pytest.raises(wolffia.TimedOutError) as late:
        box.run("echo begun; sleep 1000", timeout=0.3)
    assert late.value.output.stdout == "begun\n" and late.value.output.timed_out and late.value.status == 504


def test_shell_keeps_its_state(box: Sandbox) -> None:
    box.bash("cd /tmp; A=1")
    r = box.bash("echo $A $PWD; echo err >&2; (exit 3)")
    assert (r.stdout, r.stderr, r.exit_code) == ("1 /tmp\n", "err\n", 3)
    assert r.session and r.session["cwd"] == "/tmp"
    assert box.bash("echo once", operation_id="o1").stdout == box.bash("echo once", operation_id="o1").stdout
    with pytest.raises(wolffia.ExistsError):
        box.bash("echo other", operation_id="o1")
    box.cancel("o1")


def test_streams(box: Sandbox) -> None:
    for parts in (box.stream("echo out; echo err >&2; exit 4"), box.stream_bash("echo out; echo err >&2; (exit 4)")):
        seen = list(parts)
        end = seen.pop()
        assert isinstance(end, Result) and end.exit_code == 4
        texts = {p.stream: p.text for p in seen if isinstance(p, Output)}
        assert texts == {"stdout": "out\n", "stderr": "err\n"}
    # Output comes while the program runs: it goes on only when the client has seen its first line.
    live = box.stream("echo first; until [ -e /tmp/go ]; do sleep 0.01; done; echo last", timeout=60)
    first = next(live)
    assert isinstance(first, Output) and first.data == b"first\n"
    box.write("/tmp/go", "")
    assert isinstance(list(live)[-1], Result)
    with pytest.raises(wolffia.TimedOutError):
        list(box.stream("sleep 1000", timeout=0.1))
    with pytest.raises(wolffia.NotFoundError):
        list(box.client.sandbox("aaaaaaaaaaaa").stream("true"))


def test_files(box: Sandbox) -> None:
    box.write("dir/text", "käse\n")
    assert box.read("dir/text") == "käse\n".encode() and box.run(["cat", "dir/text"]).stdout == "käse\n"
    box.write_files({"a": b"\x00\xff", "b": ""})
    assert box.read("a") == b"\x00\xff" and box.read("b") == b""
    assert box.read_part("dir/text", -3).data == b"se\n"
    box.run("mkdir /tmp/d")
    big = bytes(range(256)) * (160 << 10)  # 40 MiB
    box.write("/tmp/big", big)
    assert box.read("/tmp/big") == big
    with pytest.raises(wolffia.InvalidError, match="/tmp/d: .*directory"):
        box.write("/tmp/d", big)
    assert box.run("ls -A /tmp").stdout == "big\nd\n"
    with pytest.raises(wolffia.NotFoundError, match="no such file"):
        box.read("none")
    with pytest.raises(wolffia.InvalidError):
        box.read("/etc")
    with pytest.raises(wolffia.DeniedError):
        box.write("/usr/bin/x", "")


def test_jobs(box: Sandbox) -> None:
    job = box.start_job("echo out; echo err >&2; until [ -e /tmp/go ]; do sleep 0.01; done", name="build", env={"A": "1"})
    assert box.wait_job("build").state == "running" and [j.id for j in box.list_jobs()] == [job.id]
    box.write("/tmp/go", "")
    ended = box.wait_job(job.id, timeout=60)
    assert ended.state == "ended" and ended.exit_code == 0
    out = box.job_output("build", stdout_offset=1, stderr_offset=0)
    assert out.stdout.data == b"ut\n" and out.stderr.data == b"err\n" and out.stdout.next == out.stdout.total == 4
    box.start_job("sleep 1000", name="long")
    box.signal_job("long", "KILL")
    assert box.wait_job("long", timeout=60).state == "ended"


def test_changes(client: Client, box: Sandbox) -> None:
    box.write("new.txt", "new\n")
    assert [c["path"] for c in box.changes()["changes"]] == ["new.txt"]
    assert b"+new" in box.diff(["new.txt"])
    snapshot = box.snapshot("one")
    assert [s.name for s in box.snapshots()] == [snapshot.name] == ["one"]
    box.write("new.txt", "other\n")
    box.restore("one")
    assert box.read("new.txt") == b"new\n"
    with box.fork() as fork:
        assert fork.read("new.txt") == b"new\n" and fork.id != box.id
    box.remove_snapshot("one")
    with pytest.raises(wolffia.DeniedError, match="apply"):
        box.apply()
    box.discard()
    assert box.changes()["changes"] == [] and box.rules("secret")["path"]["level"] == "none"
    box.run("cat secret")
    assert isinstance(box.audit()["denied"], list)


def test_sandboxes(client: Client) -> None:
    own = client.ensure()
    assert client.find().id == own.id and own.info.created
    with pytest.raises(wolffia.ConflictError):
        client.create()
    with client.add(metadata={"for": "test"}, env={"A": "1"}, ttl=3600) as box:
        found = {i.sandbox_id: i for i in client.list()}
        assert found[box.id].metadata == {"for": "test"} and found[box.id].expires_at > time.time() * 1000
        assert own.id in found and found[box.id].state == "running" and found[box.id].mount_point == "/workspace"
        assert box.run("echo $A").stdout == "1\n"
        box.touch(0)
        assert {i.sandbox_id: i for i in client.list()}[box.id].expires_at == 0
    assert box.id not in {i.sandbox_id for i in client.list()}
    with pytest.raises(wolffia.NotFoundError):
        box.run("true")
    own.destroy()
    assert own.id not in {i.sandbox_id for i in client.running()} and isinstance(client.owners(), tuple)


def test_port(box: Sandbox) -> None:
    box.write("/tmp/www/index.txt", "served\n")
    box.start_job("cd /tmp/www && exec python3 -u -m http.server 8000 --bind 127.0.0.1", name="www")
    while not box.job_output("www", stdout_offset=0).stdout.data:  # it says that it serves
        assert box.wait_job("www", timeout=0.05).state == "running"
    assert box.request("GET", 8000, "index.txt").text == "served\n"


def test_errors(client: Client) -> None:
    with pytest.raises(wolffia.NotFoundError) as missing:
        client.sandbox("aaaaaaaaaaaa").run("true")
    assert missing.value.code == "notFound" and missing.value.request_id and missing.value.status == 404
    with Client("http://127.0.0.1:9") as nowhere, pytest.raises(wolffia.UnavailableError, match="127.0.0.1:9"):
        nowhere.list()
    with Client("unix:/nowhere/sock") as nowhere, pytest.raises(wolffia.UnavailableError, match="/nowhere/sock"):
        nowhere.list()
    if client.address.startswith("http"):
        with Client(key="0123456789abcdef-wrong") as c, pytest.raises(wolffia.WolffiaError) as refused:
            c.list()
        assert refused.value.status == 401 and refused.value.code == "INVALID_API_KEY"


async def test_async() -> None:
    async with AsyncClient(owner=Owner("test", "python", "async")) as client:
        async with await client.add(cow=True) as box:
            # They run at the same time: each waits for the other.
            meet = "touch /tmp/{}; until [ -e /tmp/{} ]; do sleep 0.01; done"
            a, b = await asyncio.gather(box.run(meet.format("a", "b"), timeout=60), box.run(meet.format("b", "a"), timeout=60))
            assert a.exit_code == b.exit_code == 0
            parts = [p async for p in box.stream("echo out")]
            assert parts[0] == Output("stdout", b"out\n") and isinstance(parts[1], Result)
            await box.write("f", "x")
            assert await box.read("f") == b"x" and (await box.bash("cat f")).stdout == "x"
        assert await client.list() == []
