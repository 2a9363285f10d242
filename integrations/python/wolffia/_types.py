"""What the service answers with."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict, TypeVar, Union

JSON = dict[str, Any]
T = TypeVar("T")


def camel(name: str) -> str:
    """Returns the name that a field has in JSON."""
    return re.sub(r"_([a-z])", lambda m: m.group(1).upper(), name)


def parse(cls: type[T], reply: Mapping[str, Any], **given: Any) -> T:
    """Returns a dataclass of the fields that a reply has. A later service may send more."""
    known = {f.name: reply[camel(f.name)] for f in fields(cls)  # type: ignore[arg-type]
             if reply.get(camel(f.name)) is not None}
    return cls(**{**known, **given})


def text_and_bytes(reply: Mapping[str, Any], name: str, exact: str) -> tuple[str, bytes]:
    """Returns a text, and its exact bytes, which the service sends only where they are not UTF-8."""
    text = str(reply.get(name) or "")
    return text, base64.b64decode(reply[exact]) if reply.get(exact) else text.encode()


def argv(command: str | Sequence[str], stdin: str | bytes | None) -> JSON:
    """Returns the program and the input for a command; sh evaluates a text, also one that is too long for an argument."""
    if isinstance(command, str) and len(command.encode()) > 100_000 and stdin is None:
        return {"command": ["sh", "-c", 'eval "$(cat || echo exit 127)" </dev/null'], "stdin": encoded(command)}
    program = ["sh", "-c", command] if isinstance(command, str) else list(command)
    return {"command": program, "stdin": None if stdin is None else encoded(stdin)}


def ms(seconds: float | None) -> int | None:
    """Returns a time in ms, at least 1: 0 would mean none."""
    return None if seconds is None else max(1, round(seconds * 1000))


def encoded(content: str | bytes) -> JSON:
    """Returns a content as the service takes it."""
    if isinstance(content, str):
        return {"content": content}
    return {"encoding": "base64", "content": base64.b64encode(content).decode()}


def decoded(reply: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a content."""
    content = str(reply["content"])
    return base64.b64decode(content) if reply["encoding"] == "base64" else content.encode()


@dataclass(frozen=True)
class Owner:
    """The owner of sandboxes: of WOLFFIA_OWNER, as ORG/PROJECT/USER. A key of one owner can name only that."""

    organization_id: str = "local"
    project_id: str = "python"
    user_id: str = "default"

    @classmethod
    def default(cls) -> Owner:
        return cls(*os.environ["WOLFFIA_OWNER"].split("/")) if os.environ.get("WOLFFIA_OWNER") else cls()


class Settings(TypedDict, total=False):
    """What a request may also say of a sandbox, where the service allows it by --allow-runtime and the like."""

    codebase: str
    preset: str
    rules: list[str]
    runtime: str


@dataclass(frozen=True)
class Info:
    """A sandbox. Times are in ms since 1970; expires_at 0: never."""

    sandbox_id: str
    organization_id: str = ""
    project_id: str = ""
    user_id: str = ""
    created_at: int = 0
    state: str = ""
    mount_point: str = ""
    image: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    expires_at: int = 0
    created: bool = False
    container_name: str = ""
    git_configured: bool = False


@dataclass(frozen=True)
class Result:
    """How a command ended. A non-zero exit code is not an error."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    start_error: str = ""
    """Why there was nothing to run; then exit_code is 125 to 127."""
    signal: int = 0
    timed_out: bool = False
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    duration_ms: int = 0
    out_of_memory: bool = False
    denied: list[JSON] = field(default_factory=list)
    denied_more: int = 0
    refused: list[JSON] = field(default_factory=list)
    refused_more: int = 0
    git: list[str] = field(default_factory=list)
    git_pending: str = ""
    session: JSON | None = None
    truncated: bool = False

    @classmethod
    def of(cls, reply: JSON) -> Result:
        out, out_bytes = text_and_bytes(reply, "stdout", "stdoutBytes")
        err, err_bytes = text_and_bytes(reply, "stderr", "stderrBytes")
        return parse(cls, reply, stdout=out, stdout_bytes=out_bytes, stderr=err, stderr_bytes=err_bytes)


@dataclass(frozen=True)
class Output:
    """A piece of the output of a command that runs."""

    stream: Literal["stdout", "stderr"]
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


StreamPart = Union[Output, Result]


@dataclass(frozen=True)
class Job:
    """A background job. exit_code is None while it runs."""

    id: str
    name: str = ""
    command: str = ""
    state: str = ""
    session: str = ""
    pids: list[int] = field(default_factory=list)
    exit_code: int | None = None
    started_at: str = ""
    ended_at: str = ""


@dataclass(frozen=True)
class Part:
    """A part of a file or of a stream; total is the size of all of it, so far."""

    data: bytes
    offset: int
    total: int

    @property
    def next(self) -> int:
        """Where to go on."""
        return self.offset + len(self.data)

    @classmethod
    def of_stream(cls, reply: JSON) -> Part:
        return cls(text_and_bytes(reply, "text", "bytes")[1], reply["from"], reply["end"])


@dataclass(frozen=True)
class JobOutput:
    job: Job
    stdout: Part
    stderr: Part


@dataclass(frozen=True)
class Snapshot:
    name: str
    created_at: str = ""
    memory: bool = False


def paths64(paths: Iterable[str | bytes]) -> JSON:
    """Returns paths as the calls on changes take them: bytes for those that are not UTF-8."""
    text, raw = [], []
    for p in paths:
        if isinstance(p, str):
            text.append(p)
        else:
            raw.append(base64.b64encode(p).decode())
    return {"paths": text or None, "paths64": raw or None}
