"""The client of SWE-ReX, unchanged, drives a service: drive.py HOST:PORT KEY_OF_ALL KEY_OF_AN_OWNER."""

import asyncio
import pathlib
import sys
import tempfile

import aiohttp
from swerex import exceptions as ex
from swerex.deployment.remote import RemoteDeployment
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

address, key, owner_key = sys.argv[1:]


async def start(auth_token=key, host=f"http://{address}", **more):
    d = RemoteDeployment(auth_token=auth_token, host=host, timeout=30, **more)
    await d.start()
    return d


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


async def raises(kind, of, text=""):
    try:
        got = await of
    except kind as e:
        assert type(e) is kind and text in str(e), (type(e), e)
        return e
    raise AssertionError(f"{kind} expected, got {got!r}")


async def sessions(r):
    async def run(command, **more):
        return await r.run_in_session(BashAction(command=command, **more))

    await raises(ex.SessionDoesNotExistError, run("echo"))
    await r.create_session(CreateBashSessionRequest())
    await raises(ex.SessionExistsError, r.create_session(CreateBashSessionRequest()))
    await raises(ValueError, r.create_session(CreateBashSessionRequest(session="a b")))
    await run("cd /tmp; x='a  b'; f() { echo f $1; }; export Y=1")
    o = await run('pwd; echo "$x" >&2; f 2; printenv Y')
    assert (o.output, o.exit_code, o.expect_string) == ("/tmp\na  b\nf 2\n1\n", 0, "SHELLPS1PREFIX"), o
    o = await run("for i in 1 2 3; do echo out $i; echo err $i >&2; done")
    same(o.output, "".join(f"{s} {i}\n" for i in (1, 2, 3) for s in ("out", "err")))
    same((await run("printf '\\n\\nx\\n\\n'")).output, "\n\nx\n\n")
    same((await run("cat <<E\na $Y\nE\n\n# a comment\n")).output, "a 1\n")
    same((await run("printf 'a\\xff\\033[31mred\\033[0m'")).output, "a\\xffred")
    for nothing in ("", "\n", " # nothing"):
        same((await run(nothing)).output, "")
    assert len((await run("head -c 300000 /dev/zero | tr '\\0' x")).output) == 300000

    o = await run("echo out; (exit 3)", check="silent")
    assert (o.output, o.exit_code) == ("out\n", 3), o
    assert (await run("false", check="ignore")).exit_code is None
    await raises(ex.NonZeroExitCodeError, run("echo why; false", error_msg="it broke"), "it broke: Command")
    e = await raises(ex.BashIncorrectSyntaxError, run("echo never; (a"), "syntax error")
    assert "syntax error" in e.extra_info["bash_stderr"], e.extra_info
    o = await run("exit 4", check="silent")
    assert o.exit_code == 4 and "ended" in o.failure_reason, o
    same((await run("pwd; echo $x")).output, "/tmp\na b\n")

    await r.write_file(WriteFileRequest(path="/tmp/rc", content='[ -z "$PS1" ] && return\nZ=rc\nPS1=other\necho sourced\n'))
    o = await r.create_session(CreateBashSessionRequest(session="two", startup_source=["/tmp/rc"], startup_timeout=20))
    assert o.output == "sourced\n", o
    same((await run("echo $Z $x", session="two")).output, "rc\n")
    await r.write_file(WriteFileRequest(path="/tmp/rc", content="sleep 60"))
    await raises(ex.CommandTimeoutError, r.create_session(CreateBashSessionRequest(session="three", startup_source=["/tmp/rc"], startup_timeout=0.1)))
    await raises(ex.SessionDoesNotExistError, run("echo", session="three"))
    await r.close_session(CloseBashSessionRequest(session="two"))
    await raises(ex.SessionDoesNotExistError, r.close_session(CloseBashSessionRequest(session="two")))


async def interrupts(r):
    async def run(command, **more):
        return await r.run_in_session(BashAction(command=command, session="i", **more))

    async def interrupt(**more):
        return await r.run_in_session(BashInterruptAction(session="i", **more))

    await raises(ex.SessionDoesNotExistError, interrupt())
    await r.create_session(CreateBashSessionRequest(session="i"))
    assert (await interrupt()).output == ""
    await run("kept=1")
    for command in (
        "echo begun; sleep 1000; echo not reached",
        "echo begun; while true; do sleep 0.01; done",
        "echo begun; trap '' INT; sleep 1000",
        "echo begun; sh -c 'trap \"\" INT TERM; while true; do sleep 1; done'",
    ):
        await raises(ex.CommandTimeoutError, run(command, timeout=0.3), "timeout after 0.3 seconds")
        await raises(ex.CommandTimeoutError, run("echo queued", timeout=0.1), "an earlier command runs")
        o = await interrupt()
        assert o.output.startswith("begun") and "reached" not in o.output and o.exit_code == 0, (command, o)
        same((await run("echo $kept")).output, "1\n")
    # It goes on after a time-out, and an interrupt does not wait for a request.
    await raises(ex.CommandTimeoutError, run("sleep 0.5; echo done > /tmp/done", timeout=0.1))
    same((await run("cat /tmp/done")).output, "done\n")
    waiting = asyncio.create_task(run("touch /tmp/runs; sleep 1000", check="silent"))
    while (await r.execute(Command(command=["test", "-e", "/tmp/runs"]))).exit_code:
        pass
    await interrupt()
    assert (await waiting).exit_code == 130
    # What a client that has gone has begun ends.
    try:
        await asyncio.wait_for(run("sleep 1000"), 0.3)
    except asyncio.TimeoutError:
        pass
    same((await run("echo free")).output, "free\n")


async def interactive(r):
    async def run(command, **more):
        return await r.run_in_session(BashAction(command=command, session="t", timeout=30, **more))

    await r.create_session(CreateBashSessionRequest(session="t"))
    o = await run("read -p 'name? ' n; echo hello $n", expect=["nothing", r"na\w+\? "], check="ignore")
    assert (o.output, o.exit_code, o.expect_string) == ("", None, r"na\w+\? "), o
    o = await run("zoe", is_interactive_command=True)
    assert (o.output, o.expect_string) == ("hello zoe", "SHELLPS1PREFIX"), o
    same((await run("echo after $n")).output, "after zoe\n")
    await raises(ex.NoExitCodeError, run("echo prompt; read x", expect=["prompt"]))
    await r.run_in_session(BashInterruptAction(session="t"))
    o = await run("echo one; echo two", expect=["one\\s"])
    assert (o.exit_code, o.expect_string) == (0, "one\\s") and "two" in o.output, o

    python = dict(is_interactive_command=True, expect=[">>> "])
    for _ in range(2):
        await run("python3", **python)
        same((await run("x = 6 * 7", **python)).output, "")
        assert "42" in (await run("print(x)", **python)).output
        await run("quit()\n", is_interactive_quit=True)
        same((await run("echo $((6 * 8))")).output, "48\n")
    await run("python3", **python)
    await raises(ex.CommandTimeoutError, r.run_in_session(BashAction(command="import time; time.sleep(1000)", session="t", timeout=0.3, **python)))
    o = await r.run_in_session(BashInterruptAction(session="t", timeout=10, expect=[">>> "]))
    assert o.expect_string == ">>> " and "KeyboardInterrupt" in o.output, o
    o = await r.run_in_session(BashInterruptAction(session="t", n_retry=1))
    assert o.expect_string == "SHELLPS1PREFIX", o
    same((await run("echo $n")).output, "zoe\n")
    shell = dict(is_interactive_command=True, expect=["prompt> "])
    await run("PS1='prompt> ' bash --norc --noprofile -i", **shell)
    assert "5" in (await run("echo $((2 + 3))", **shell)).output
    await run("exit", is_interactive_quit=True)
    await raises(ValueError, run("echo", expect=["("]), "regular expression")
    await r.close_session(CloseBashSessionRequest(session="t"))


async def commands(r):
    async def execute(command, **more):
        return await r.execute(Command(command=command, **more))

    o = await execute(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (o.stdout, o.stderr, o.exit_code) == ("out\n", "err\n", 3), o
    o = await execute("echo out; echo err >&2", shell=True, merge_output_streams=True)
    assert (o.stdout, o.stderr) == ("out\nerr\n", ""), o
    assert (await execute(["printf", "%s|", "a b", "$x"])).stdout == "a b|$x|"
    assert (await execute(["printf", "\\377"])).stdout == "\\xff"
    assert (await execute("true")).exit_code == 0
    assert (await execute("pwd; echo $A", shell=True, cwd="/tmp", env={"A": "1"})).stdout == "/tmp\n1\n"
    await execute("", shell=True, check=True)
    await raises(ex.NonZeroExitCodeError, execute(["false"], check=True, error_msg="no"), "no: Command")
    await raises(ex.CommandTimeoutError, execute(["sleep", "10"], timeout=0.1))
    await raises(FileNotFoundError, execute(["no-such-program"]))
    await raises(FileNotFoundError, execute(["true"], cwd="/no/such"))
    await raises(PermissionError, execute(["/etc/passwd"]))


async def files(r):
    text = "a\r\nä\n"
    await r.write_file(WriteFileRequest(path="/tmp/new/dir/a.txt", content=text))
    assert (await r.read_file(ReadFileRequest(path="/tmp/new/dir/a.txt"))).content == text
    await raises(FileNotFoundError, r.read_file(ReadFileRequest(path="/tmp/none")))
    await r.execute(Command(command="cd /tmp; echo > closed; chmod 0 closed; mkdir shut; chmod 500 shut", shell=True, check=True))
    await raises(PermissionError, r.read_file(ReadFileRequest(path="/tmp/closed")))
    await raises(OSError, r.read_file(ReadFileRequest(path="/tmp")))
    await r.execute(Command(command="printf 'a\\377b' > /tmp/odd", shell=True))
    await raises(ex.SwerexException, r.read_file(ReadFileRequest(path="/tmp/odd")))
    for errors, encoding, want in ("ignore", None, "ab"), ("replace", None, "a\ufffdb"), ("backslashreplace", None, "a\\xffb"), (None, "latin-1", "a\xffb"):
        assert (await r.read_file(ReadFileRequest(path="/tmp/odd", errors=errors, encoding=encoding))).content == want
    await raises(LookupError, r.read_file(ReadFileRequest(path="/tmp/odd", encoding="utf-16")))

    with tempfile.TemporaryDirectory() as d:
        tree = pathlib.Path(d) / "tree"
        (tree / "a" / "b").mkdir(parents=True)
        (tree / "empty").mkdir()
        (tree / "a" / "b" / "f").write_text("f")
        (tree / "big").write_bytes(bytes(range(256)) * 20000)
        await r.upload(UploadRequest(source_path=str(tree), target_path="/tmp/up/tree"))
        await r.upload(UploadRequest(source_path=str(tree), target_path="/tmp/up/tree"))  # over it
        await r.upload(UploadRequest(source_path=str(tree / "big"), target_path="/tmp/one/big"))
        o = await r.execute(Command(command="cd /tmp; cat up/tree/a/b/f; ls up/tree; cmp up/tree/big one/big; wc -c < one/big", shell=True, check=True))
        assert o.stdout == "fa\nbig\nempty\n5120000\n", o
        await raises(PermissionError, r.upload(UploadRequest(source_path=str(tree / "big"), target_path="/tmp/shut/big")))


async def refused():
    """What the client itself does not send."""
    async with aiohttp.ClientSession(headers={"X-API-Key": key}) as s:
        async def status(method, path, **more):
            async with s.request(method, f"http://{address}{path}", **more) as res:
                return res.status, (await res.json()).get("detail", "")

        assert await status("GET", "/close") == (405, "Method Not Allowed")
        assert (await status("POST", "/execute", data="{"))[0] == 422
        assert (await status("POST", "/execute", json={"command": 1}))[0] == 422
        assert (await status("POST", "/upload", json={}))[0] == 422
        form = aiohttp.FormData()
        form.add_field("file", b"no archive", filename="x.zip")
        form.add_field("target_path", "/tmp/x")
        form.add_field("unzip", "true")
        assert (await status("POST", "/upload", data=form))[0] == 511
    d = await start(auth_token="wrong" * 4)
    assert not await d.is_alive()
    await raises(aiohttp.ClientResponseError, d.runtime.execute(Command(command="true")))


async def which():
    """Each deployment has the sandbox of its key's owner, or the one that its host's path names."""
    kinds = dict(all={}, owner=dict(auth_token=owner_key), named=dict(host=f"http://{address}/swerex/task-1"), port=dict(host="http://" + address.split(":")[0], port=int(address.split(":")[1])))
    d = {name: await start(**more) for name, more in kinds.items()}
    for name in "all", "owner", "named":
        await d[name].runtime.write_file(WriteFileRequest(path="/tmp/who", content=name))
    for name, want in dict(all="all", owner="owner", named="named", port="all").items():
        assert (await d[name].runtime.read_file(ReadFileRequest(path="/tmp/who"))).content == want
    await d["all"].stop()  # which destroys its sandbox
    await raises(FileNotFoundError, d["port"].runtime.read_file(ReadFileRequest(path="/tmp/who")))
    assert (await d["named"].runtime.read_file(ReadFileRequest(path="/tmp/who"))).content == "named"
    for name in "owner", "named", "port":
        await d[name].stop()


async def main():
    d = await start()
    assert await d.is_alive()
    for part in sessions, interrupts, interactive, commands, files:
        await part(d.runtime)
        print(part.__name__, "ok", file=sys.stderr)
    await d.stop()
    await refused()
    await which()


asyncio.run(main())
