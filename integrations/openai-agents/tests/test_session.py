"""Sessions against a real service, and an agent whose model is scripted."""

import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import ModelResponse, RunConfig, Runner, Usage
from agents.models.interface import Model
from agents.run_config import SandboxRunConfig
from agents.sandbox import SandboxAgent
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, WorkspaceReadNotFoundError
from agents.sandbox.manifest import Manifest
from agents.sandbox.session.sandbox_session import SandboxSession
from agents.sandbox.snapshot import LocalSnapshotSpec
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from wolffia import AsyncClient, Owner
from wolffia_openai_agents import WolffiaSandboxClient, WolffiaSandboxClientOptions, WolffiaSandboxSessionState


@pytest.fixture
async def client() -> AsyncIterator[WolffiaSandboxClient]:
    async with AsyncClient(owner=Owner("test", "openai", "zoe")) as c:
        yield WolffiaSandboxClient(c)
        for left in await c.list():
            await c.sandbox(left.sandbox_id).destroy()


@pytest.fixture
async def session(client: WolffiaSandboxClient) -> AsyncIterator[SandboxSession]:
    manifest = Manifest(entries={"given/hello.txt": File(content=b"hello\n")})
    session = await client.create(manifest=manifest)
    async with session:
        yield session
    await client.delete(session)
    assert await client.client.list() == []


async def test_exec(session: SandboxSession) -> None:
    r = await session.exec("cat given/hello.txt; pwd; echo err >&2; exit 3")
    assert (r.stdout, r.stderr, r.exit_code) == (b"hello\n/workspace\n", b"err\n", 3)
    r = await session.exec("printf", r"\377", shell=False)
    assert r.stdout == b"\xff"
    assert (await session.exec("no-such-program", shell=False)).exit_code == 127
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 1000", timeout=0.3)
    assert await session.running()


async def test_files(session: SandboxSession) -> None:
    await session.write(Path("dir/a"), io.BytesIO(b"\x00\xff"))
    assert (await session.read(Path("dir/a"))).read() == b"\x00\xff"
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("none"))
    await session.exec("ln -s /etc out")
    with pytest.raises(Exception, match="escape|root"):
        await session.read(Path("out/passwd"))
    assert sorted(Path(f.path).name for f in await session.ls("dir")) == ["a"]


async def test_workspace_crosses(client: WolffiaSandboxClient, session: SandboxSession) -> None:
    await session.exec("mkdir -p d && echo text > d/f && ln -s f d/l && chmod 755 d/f")
    tar = await session.persist_workspace()
    content = tar.read()
    with tarfile.open(fileobj=io.BytesIO(content)) as t:
        assert "./d/f" in t.getnames() and not any(n.startswith("/") for n in t.getnames())
    other = await client.create()
    async with other:
        await other.hydrate_workspace(io.BytesIO(content))
        r = await other.exec("cat d/l; stat -c %a d/f")
        assert r.stdout == b"text\n755\n"
        with pytest.raises(Exception):
            await other.hydrate_workspace(io.BytesIO(b"not a tar" * 1000))
    await client.delete(other)


async def test_resume(client: WolffiaSandboxClient, tmp_path: Path) -> None:
    session = await client.create(snapshot=LocalSnapshotSpec(base_path=tmp_path))
    async with session:
        await session.exec("echo kept > f")
    payload = json.loads(json.dumps(client.serialize_session_state(session.state)))
    state = client.deserialize_session_state(payload)
    assert isinstance(state, WolffiaSandboxSessionState)
    first = state.sandbox_id
    again = await client.resume(state)  # the sandbox still runs
    async with again:
        assert (await again.exec("cat f")).stdout == b"kept\n" and state.sandbox_id == first
    await client.delete(again)
    state = client.deserialize_session_state(payload)
    assert isinstance(state, WolffiaSandboxSessionState)
    new = await client.resume(state)  # it does not: the snapshot has the workspace
    async with new:
        assert (await new.exec("cat f")).stdout == b"kept\n" and state.sandbox_id != first
    await client.delete(new)
    await client.delete(new)  # which is not an error


class Scripted(Model):
    """A model that calls a tool, and then repeats what that has answered."""

    async def get_response(self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *_: Any, **__: Any) -> ModelResponse:
        answers = [i["output"] for i in input if isinstance(i, dict) and i.get("type") == "function_call_output"]
        if answers:
            text = ResponseOutputText(text=str(answers[-1]), type="output_text", annotations=[])
            out: Any = ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[text])
        else:
            assert "exec_command" in {t.name for t in tools}
            out = ResponseFunctionToolCall(
                call_id="1", name="exec_command", type="function_call",
                arguments=json.dumps({"cmd": "cat given/hello.txt && echo $((6 * 7))"}))
        return ModelResponse(output=[out], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def test_agent(client: WolffiaSandboxClient) -> None:
    agent = SandboxAgent(
        name="coder", instructions="Work.", model=Scripted(),
        default_manifest=Manifest(entries={"given/hello.txt": File(content=b"hello\n")}))
    config = RunConfig(
        tracing_disabled=True, sandbox=SandboxRunConfig(client=client, options=WolffiaSandboxClientOptions(network="none")))
    result = await Runner.run(agent, "go", run_config=config)
    assert "hello\n42\n" in str(result.final_output)
    assert await client.client.list() == []
