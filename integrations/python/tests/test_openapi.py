"""The client agrees with the OpenAPI document of the service: each call, each field of a request and of a reply."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import httpx

import wolffia
from wolffia import Client, Info, Job, Owner, Part, Result, Sandbox, Snapshot
from wolffia._types import camel

# The fields of replies that the client has no names for: older names of others.
LEFT_OUT = {"cwd", "cwdBytes", "sessionEnded", "restored", "stdout", "stderr"}
SPECIAL = {"stdout", "stderr", "stdoutBytes", "stderrBytes"}


def test_sync_is_generated() -> None:
    import generate

    here = Path(wolffia.__file__).parent
    assert (here / "_sync.py").read_text() == generate.synchronous((here / "_async.py").read_text()), \
        "run generate.py"


class Recorder(httpx.BaseTransport):
    """Answers each call with what the document says, and keeps its request."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document, self.seen = document, dict[str, set[str]]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.removeprefix("/api/v1/")
        body = json.loads(request.content)
        self.seen.setdefault(name, set()).update(body)
        operation = self.document["paths"]["/api/v1/" + name]["post"]
        content = operation["responses"]["2XX"]["content"]
        if "text/event-stream" in content:
            return httpx.Response(200, text='event: result\ndata: {"exitCode":0}\n\n')
        return httpx.Response(200, json=example(content["application/json"]["schema"]))


def example(schema: dict[str, Any]) -> Any:
    match schema.get("type"):
        case "object":
            return {k: example(s) for k, s in schema.get("properties", {}).items()}
        case "array":
            return [example(schema["items"])]
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case "string" if schema.get("contentEncoding"):
            return ""
        case "string":
            return "utf-8"
    return None


def drive(c: Client) -> None:
    """Calls each method with all its arguments."""
    box = c.add(image="i", env={"A": "1"}, metadata={"a": "b"}, ttl=1, network="none", egress={}, cow=True,
                codebase="c", preset="p", rules=["r"], runtime="r")
    for make in (c.create, c.ensure):
        make(git_config={}, network="none", egress={}, cow=True, codebase="c", preset="p", rules=["r"], runtime="r")
    for simple in (c.find, c.list, c.running, c.owners, box.destroy, box.fork, box.snapshots):
        simple()
    box.forks(2, memory=True)
    box.touch(1)
    box.pause()
    box.resume()
    box.change_network({})
    box.questions(1, 1)
    box.answer("q1", True, scope="sandbox", target="t", path="p", by="b")
    box.run(["true"], cwd="/", env={}, stdin="x", user="u", timeout=1, max_bytes=1)
    list(box.stream(["true"], cwd="/", env={}, user="u", timeout=1))
    box.bash("true", cwd="/", timeout=1, operation_id="o")
    list(box.stream_bash("true", cwd="/", timeout=1))
    box.cancel("o")
    box.start_job("true", name="n", session="s", cwd="/", env={})
    box.list_jobs(session="s")
    box.job_output("j", session="s", stdout_offset=0, stderr_offset=0, max_bytes=1)
    box.wait_job("j", session="s", timeout=1)
    box.signal_job("j", "TERM", session="s")
    box.read("f")
    box.write("f", "x")
    box.rules("p")
    box.audit(1)
    both: list[str | bytes] = ["p", b"\xff"]
    box.changes(both, lines=True, limit=1)
    box.diff(both, max_bytes=1)
    box.apply(both, dry_run=True, force=True)
    box.discard(both)
    box.snapshot("s", memory=True)
    for named in (box.restore, box.remove_snapshot):
        named("s")


def reply(document: dict[str, Any], name: str, *below: str) -> set[str]:
    schema = document["paths"]["/api/v1/" + name]["post"]["responses"]["2XX"]["content"]["application/json"]["schema"]
    for part in below:
        schema = schema["properties"][part]
        schema = schema.get("items", schema)
    return set(schema["properties"])


def test_requests(client: Client) -> None:
    document = client.openapi()
    recorder = Recorder(document)
    c = Client("http://recorded", owner=Owner("o", "p", "u"))
    c._http = httpx.Client(base_url="http://recorded", transport=recorder)
    drive(c)
    operations = {p.removeprefix("/api/v1/"): o["post"] for p, o in document["paths"].items()}
    assert set(recorder.seen) == set(operations)
    for name, seen in recorder.seen.items():
        schema = operations[name]["requestBody"]["content"]["application/json"]["schema"]
        assert seen == set(schema["properties"]), name


def names(cls: Any) -> set[str]:
    return {camel(f.name) for f in dataclasses.fields(cls)}


def test_replies(client: Client) -> None:
    document = client.openapi()
    made = reply(document, "ensureSandbox") | reply(document, "addSandbox")
    assert made == names(Info)
    for name in ("createSandbox", "findSandbox", "forkSandbox"):
        assert reply(document, name) - {"sandboxes"} <= made, name
    for name in ("listSandboxes", "scanRunningSandboxes"):
        assert reply(document, name, "sandboxes") <= made, name
    assert reply(document, "runCommand") - LEFT_OUT == names(Result) - {"stdout", "stderr"}
    assert reply(document, "executeBash") - LEFT_OUT == names(Result) - {"stdout", "stderr", "startError"}
    assert SPECIAL <= reply(document, "runCommand")
    for name in ("startJob", "waitJob", "signalJob", "jobOutput"):
        assert reply(document, name, "job") - LEFT_OUT == names(Job), name
    assert reply(document, "listJobs", "jobs") - LEFT_OUT == names(Job)
    assert reply(document, "jobOutput", "stdout") == {"text", "bytes", "from", "next", "end"}
    assert reply(document, "readFile") == {"encoding", "content", "offset", "size"}
    assert reply(document, "diff") >= {"encoding", "content"}
    assert reply(document, "createSnapshot") == reply(document, "listSnapshots", "snapshots") == names(Snapshot)
    assert {f.name for f in dataclasses.fields(Part)} == {"data", "offset", "total"}
    failed = document["paths"]["/api/v1/runCommand"]["post"]["responses"]["default"]["content"]["application/json"]
    error = failed["schema"]["properties"]["error"]["properties"]
    assert set(error) == {"code", "message", "requestId", "sandboxId"}
    assert set(failed["schema"]["properties"]) == {"error", "result"}


def test_both_clients_have_the_same_methods() -> None:
    for asynchronous, synchronous in ((wolffia.AsyncClient, Client), (wolffia.AsyncSandbox, Sandbox)):
        public = {n for n in dir(asynchronous) if not n.startswith("_")} - {"aclose"}
        assert public == {n for n in dir(synchronous) if not n.startswith("_")} - {"close"}
