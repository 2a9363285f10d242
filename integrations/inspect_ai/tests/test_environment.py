"""What Inspect's checks leave out, and a task with Inspect's own mock model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentSpec, SandboxUnavailableError, sandbox

from wolffia import NotFoundError
from wolffia_inspect_ai import WolffiaConfig, WolffiaSandboxEnvironment, client_of


@pytest.fixture
async def env() -> AsyncIterator[WolffiaSandboxEnvironment]:
    made = await WolffiaSandboxEnvironment.sample_init("test", WolffiaConfig(env={"A": "1"}), {})
    yield made["default"].as_type(WolffiaSandboxEnvironment)
    await WolffiaSandboxEnvironment.sample_cleanup("test", None, made, False)


@solver
def remote() -> Solver:
    """Inspect puts a helper of its own into the sandbox, which runs a command."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        r = await sandbox().exec_remote(["sh", "-c", "echo remote $A"], stream=False)
        state.metadata["remote"] = r.stdout
        return state

    return solve


def test_task(tmp_path: Path) -> None:
    """The entry point, files of a sample, a tool call, and the end of the sandbox."""
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "cat given.txt; echo $A; pwd"}),
        ModelOutput.from_content("mockllm/model", "the end"),
    ]
    for o in outputs:
        o.usage = ModelUsage()  # else the mock counts tokens, for which it downloads a table
    model = get_model("mockllm/model", custom_outputs=outputs)
    task = Task(
        dataset=[Sample("go", target="the end", files={"given.txt": "from the sample"})],
        solver=[remote(), use_tools(bash(timeout=60)), generate()], scorer=includes(),
        sandbox=SandboxEnvironmentSpec("wolffia", WolffiaConfig(env={"A": "1"})),
    )
    log = eval(task, model=model, log_dir=str(tmp_path), display="none")[0]
    assert log.status == "success", log.error
    assert log.samples
    answers = [m.text for m in log.samples[0].messages if m.role == "tool"]
    assert log.samples[0].metadata["remote"] == "remote 1\n"
    assert answers == ["from the sample1\n/workspace\n"] or answers == ["from the sample1\n/workspace"]


async def test_exec(env: WolffiaSandboxEnvironment) -> None:
    r = await env.exec(["sh", "-c", "echo $A; exit 3"])
    assert (r.success, r.returncode, r.stdout) == (False, 3, "1\n")
    r = await env.exec(["no-such-program"])
    assert r.returncode == 127 and "no-such-program" in r.stderr
    name = (await env.exec(["id", "-un"])).stdout.strip()
    assert (await env.exec(["true"], user=name)).success
    with pytest.raises(OutputLimitExceededError):
        await env.exec(["sh", "-c", "yes | head -c 12000000"])
    with pytest.raises(TimeoutError) as late:
        await env.exec(["sh", "-c", "echo begun; sleep 1000"], timeout=1)
    assert getattr(late.value, "truncated_output") == "begun\n"


async def test_files(env: WolffiaSandboxEnvironment) -> None:
    await env.write_file("f", b"\xff")
    with pytest.raises(UnicodeDecodeError):
        await env.read_file("f")
    await env.write_file("crlf", "a\r\nb")
    assert await env.read_file("crlf") == "a\r\nb"
    with pytest.raises(PermissionError):
        await env.write_file("/usr/bin/x", "")


async def test_connection_and_cleanup(env: WolffiaSandboxEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    c = await env.connection()
    assert c.type == "wolffia" and c.command == f"wolffia exec -it {env.box.id} -- sh" and c.container == env.box.id
    async with client_of() as client:
        other = await client.add(cow=True)  # not Inspect's
        await WolffiaSandboxEnvironment.cli_cleanup(None)
        assert [i.sandbox_id for i in await client.list()] == [other.id]
        await other.destroy()
        with pytest.raises(NotFoundError):
            await env.box.run("true")
    assert env.box.id in capsys.readouterr().out
    with pytest.raises(ConnectionError):
        await env.connection()
    with pytest.raises(SandboxUnavailableError):
        await env.exec(["true"])


def test_config() -> None:
    assert WolffiaSandboxEnvironment.config_deserialize({"image": "i"}) == WolffiaConfig(image="i")
    with pytest.raises(ValueError):
        WolffiaSandboxEnvironment.config_deserialize({"unknown": 1})
