"""What LangChain's tests leave out, and an agent."""

from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from wolffia_deepagents import WolffiaSandbox


class Model(GenericFakeChatModel):
    """LangChain's fake model, which takes tools and does not look at them."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def call(name: str, **args: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": args, "id": f"{name}-{len(str(args))}", "type": "tool_call"}])


def test_agent(sandbox: WolffiaSandbox) -> None:
    model = Model(messages=iter([
        call("write_file", file_path="/tmp/agent/hello.py", content="print('hello', 6 * 7)\n"),
        call("execute", command="cd /tmp/agent && python3 hello.py; exit 3"),
        call("grep", pattern="hello", path="/tmp/agent"),
        call("execute", command="seq 100000"),
        AIMessage(content="done"),
    ]))
    # deepagents keeps long output in a file below the artifacts' root, which is / unless this says so.
    backend = CompositeBackend(default=sandbox, routes={}, artifacts_root="/tmp")
    agent = create_deep_agent(model=model, backend=backend)
    messages = agent.invoke({"messages": [HumanMessage("say hello")]})["messages"]
    answers = [str(m.content) for m in messages if isinstance(m, ToolMessage)]
    assert "hello 42" in answers[1] and "exit code 3" in answers[1], answers
    assert "/tmp/agent/hello.py" in answers[2] and "/tmp/large_tool_results/" in answers[3], answers
    assert sandbox.execute("grep -x 100000 /tmp/large_tool_results/*").output == "100000\n"
    assert messages[-1].content == "done"
    assert sandbox.sandbox.read("/tmp/agent/hello.py") == b"print('hello', 6 * 7)\n"


def test_execute(sandbox: WolffiaSandbox) -> None:
    r = sandbox.execute("echo out; echo err >&2; echo out; exit 4")
    assert (r.output, r.exit_code, r.truncated) == ("out\nerr\nout\n", 4, False)
    r = sandbox.execute("echo begun; sleep 1000", timeout=1)
    assert r.exit_code == 124 and r.output.startswith("begun\n") and "was stopped" in r.output
    sandbox.max_output = 10
    assert sandbox.execute("yes | head -n 100").truncated
    sandbox.max_output = 8 << 20


def test_errors(sandbox: WolffiaSandbox) -> None:
    assert [r.error for r in sandbox.download_files(["/none", "/etc", "relative"])] == [
        "file_not_found", "is_directory", "invalid_path"]
    assert [r.error for r in sandbox.upload_files([("/usr/x", b""), ("/etc", b""), ("relative", b"")])] == [
        "permission_denied", "is_directory", "invalid_path"]
    secret = "/workspace/secret"  # the rules of the service hide it
    assert sandbox.download_files([secret])[0].error == "file_not_found"


async def test_async(sandbox: WolffiaSandbox) -> None:
    assert (await sandbox.awrite("/tmp/async", "text")).error is None
    assert (await sandbox.aexecute("cat /tmp/async", timeout=60)).output == "text"
