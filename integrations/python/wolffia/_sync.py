"""The synchronous client. generate.py has made it of _async.py: change that."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from typing_extensions import Unpack

from ._errors import InvalidError, UnavailableError, error_of
from ._types import (
    JSON, Info, Job, JobOutput, Output, Owner, Part, Result, Settings, Snapshot, StreamPart, argv, decoded, encoded,
    ms, parse, paths64, text_and_bytes,
)

CHUNK = 16 << 20
"""How many bytes of a file one call reads or writes."""


def default_address() -> str:
    """Returns WOLFFIA_ADDRESS, or the default socket of wolffia serve."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    state = os.environ.get("WOLFFIA_STATE_DIR") or home + "/wolffia"
    return os.environ.get("WOLFFIA_ADDRESS") or f"unix:{state}/service/sock"


class Client:
    """A client of one service, for one owner. Close it, or use it as a context manager.

    address is unix:PATH, or http://HOST:PORT; key is one of --api-keys. Without them WOLFFIA_ADDRESS and
    WOLFFIA_API_KEY count, and then the default socket; without owner WOLFFIA_OWNER. It is safe for concurrent use.
    """

    def __init__(self, address: str | None = None, key: str | None = None, owner: Owner | None = None) -> None:
        self.address, self.owner = address or default_address(), owner or Owner.default()
        key = key or os.environ.get("WOLFFIA_API_KEY")
        unix = self.address.removeprefix("unix:") if self.address.startswith("unix:") else None
        self._http = httpx.Client(
            base_url="http://wolffia" if unix else self.address,
            transport=httpx.HTTPTransport(uds=unix, limits=httpx.Limits(max_connections=None)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(60, read=None),  # the service bounds what it does
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _body(self, about: Mapping[str, Any]) -> JSON:
        owner = {"organizationId": self.owner.organization_id, "projectId": self.owner.project_id,
                 "userId": self.owner.user_id}
        return owner | {k: v for k, v in about.items() if v is not None}

    def call(self, name: str, /, **about: Any) -> JSON:
        """Makes a call for the owner, and returns the reply. Fields that are None are left out."""
        return self._post(name, self._body(about))

    def _post(self, name: str, body: JSON) -> JSON:
        try:
            r = self._http.post(f"/api/v1/{name}", json=body)
        except httpx.TransportError as e:
            raise UnavailableError(f"the service at {self.address}: {e or type(e).__name__}") from e
        reply = _object(r.content)
        if r.is_error:
            raise error_of(r.status_code, reply)
        return reply

    def stream(self, name: str, /, **about: Any) -> Iterator[StreamPart]:
        """Makes a call that answers with events: pieces of output, and at last the result."""
        try:
            with self._http.stream("POST", f"/api/v1/{name}", json=self._body(about)) as r:
                if r.is_error:
                    raise error_of(r.status_code, _object(r.read()))
                event = ""
                for line in r.iter_lines():
                    kind, _, value = line.partition(": ")
                    if kind == "event":
                        event = value
                    elif kind == "data" and event in ("stdout", "stderr"):
                        data = text_and_bytes(json.loads(value), "text", "bytes")[1]
                        yield Output("stdout" if event == "stdout" else "stderr", data)
                    elif kind == "data" and event == "result":
                        yield Result.of(json.loads(value))
                        return
                    elif kind == "data" and event == "error":
                        failed = json.loads(value)
                        raise error_of(504 if failed["error"]["code"] == "timedOut" else 500, failed)
        except httpx.TransportError as e:
            raise UnavailableError(f"the service at {self.address}: {e or type(e).__name__}") from e
        raise UnavailableError(f"the service at {self.address}: the reply has ended before the result")

    def add(
        self, *, image: str | None = None, env: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None, ttl: float | None = None, network: str | None = None,
        egress: JSON | None = None, cow: bool | None = None, **settings: Unpack[Settings],
    ) -> Sandbox:
        """Creates one more sandbox of the owner, which is destroyed ttl seconds from now, if that is given."""
        r = self.call("addSandbox", image=image, env=env, metadata=metadata, ttlMs=ms(ttl), network=network,
                            egress=egress, cow=cow, **settings)
        return Sandbox(self, parse(Info, r))

    def create(
        self, *, git_config: JSON | None = None, network: str | None = None, egress: JSON | None = None,
        cow: bool | None = None, **settings: Unpack[Settings],
    ) -> Sandbox:
        """Creates the owner's own sandbox; if there is one, the error is ConflictError."""
        r = self.call("createSandbox", gitConfig=git_config, network=network, egress=egress, cow=cow, **settings)
        return Sandbox(self, parse(Info, r))

    def ensure(
        self, *, git_config: JSON | None = None, network: str | None = None, egress: JSON | None = None,
        cow: bool | None = None, **settings: Unpack[Settings],
    ) -> Sandbox:
        """Returns the owner's own sandbox, which is created if there is none that answers."""
        r = self.call("ensureSandbox", gitConfig=git_config, network=network, egress=egress, cow=cow, **settings)
        return Sandbox(self, parse(Info, r))

    def find(self) -> Sandbox:
        """Returns the owner's own sandbox."""
        return Sandbox(self, parse(Info, self.call("findSandbox")))

    def sandbox(self, sandbox_id: str) -> Sandbox:
        """Returns a handle on a sandbox, without a call."""
        return Sandbox(self, Info(sandbox_id))

    def list(self) -> list[Info]:
        """Returns the sandboxes of the owner, newest first."""
        return [parse(Info, s) for s in (self.call("listSandboxes"))["sandboxes"]]

    def running(self) -> Sequence[Info]:
        """Returns the running sandboxes of all owners that the key may know."""
        return [parse(Info, s) for s in (self._post("scanRunningSandboxes", {}))["sandboxes"]]

    def owners(self) -> Sequence[JSON]:
        """Returns the owners that the key may know, and what they have."""
        return tuple((self._post("listOwners", {}))["owners"])

    def openapi(self) -> JSON:
        """Returns the OpenAPI document of the service."""
        r = self._http.get("/api/v1/openapi.json")
        if r.is_error:
            raise error_of(r.status_code, _object(r.content))
        return _object(r.content)


def _object(content: bytes) -> JSON:
    """Returns a JSON object; of something else an empty one."""
    try:
        reply = json.loads(content)
    except ValueError:
        return {}
    return reply if isinstance(reply, dict) else {}


class Sandbox:
    """A sandbox. As a context manager it is destroyed at the end. Times are in seconds."""

    def __init__(self, client: Client, info: Info) -> None:
        self.client, self.info, self.id = client, info, info.sandbox_id

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.destroy()

    def _call(self, name: str, /, **about: Any) -> JSON:
        return self.client.call(name, sandboxId=self.id, **about)

    def destroy(self) -> None:
        self._call("destroySandbox")

    def touch(self, ttl: float | None = None) -> None:
        """Restarts the idle time, and sets the time to live from now on; 0: none; None: unchanged."""
        self._call("touchSandbox", ttlMs=0 if ttl == 0 else ms(ttl))

    def pause(self) -> None:
        """Has all processes stand still, with what they have in memory. UnsupportedError where that is impossible."""
        self._call("pauseSandbox")

    def resume(self) -> None:
        """Ends a pause; a running sandbox runs on."""
        self._call("resumeSandbox")

    def change_network(self, egress: JSON) -> JSON:
        """Replaces what a sandbox with a filtered network can reach; {}: nothing. It is in force at the return."""
        changed: JSON = (self._call("changeNetwork", egress=egress))["egress"]
        return changed

    def questions(self, seen: int = 0, wait: float = 0) -> tuple[list[JSON], int]:
        """Returns the accesses that wait for an answer, once they are others than at seen, or after wait."""
        reply = self._call("questions", seen=seen, waitMs=ms(wait))
        return reply["questions"], reply["seen"]

    def answer(
        self, question: str, allow: bool, *, scope: str = "once", target: str | None = None, path: str | None = None,
        by: str | None = None,
    ) -> None:
        """Answers a question: for scope once or sandbox. path repeats the path of what may be a secret."""
        self._call("answerQuestion", question=question, allow=allow, scope=scope, target=target, path=path, by=by)

    def run(
        self, command: str | Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None, user: str | None = None, timeout: float | None = None,
        max_bytes: int | None = None,
    ) -> Result:
        """Runs a program to its end, or a text by sh. Any number run at the same time. See TimedOutError."""
        return Result.of(self._call(
            "runCommand", **argv(command, stdin), cwd=cwd, env=env, user=user, timeoutMs=ms(timeout),
            maxBytes=max_bytes))

    def stream(
        self, command: str | Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None,
        user: str | None = None, timeout: float | None = None,
    ) -> Iterator[StreamPart]:
        """Runs a program, or a text by sh, and yields its output as it comes, and at last the Result."""
        program = ["sh", "-c", command] if isinstance(command, str) else list(command)
        for part in self.client.stream(
            "streamCommand", sandboxId=self.id, command=program, cwd=cwd, env=env, user=user, timeoutMs=ms(timeout)
        ):
            yield part

    def bash(
        self, command: str, *, cwd: str | None = None, timeout: float | None = None, operation_id: str | None = None
    ) -> Result:
        """Evaluates a command in the persistent shell. With an operation_id it outlives the request."""
        return Result.of(self._call(
            "executeBash", command=command, cwd=cwd, timeoutMs=ms(timeout), operationId=operation_id))

    def stream_bash(
        self, command: str, *, cwd: str | None = None, timeout: float | None = None
    ) -> Iterator[StreamPart]:
        """Evaluates a command in the persistent shell, and yields as stream does."""
        for part in self.client.stream(
            "streamBash", sandboxId=self.id, command=command, cwd=cwd, timeoutMs=ms(timeout)
        ):
            yield part

    def cancel(self, operation_id: str) -> None:
        """Interrupts a command of bash."""
        self._call("cancelOperation", operationId=operation_id)

    def start_job(
        self, command: str, *, name: str | None = None, session: str | None = None, cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Job:
        """Starts a background job, which outlives the request and the service."""
        r = self._call("startJob", command=command, name=name, session=session, cwd=cwd, env=env)
        return parse(Job, r["job"])

    def list_jobs(self, *, session: str | None = None) -> list[Job]:
        return [parse(Job, j) for j in (self._call("listJobs", session=session))["jobs"]]

    def job_output(
        self, job: str, *, session: str | None = None, stdout_offset: int | None = None,
        stderr_offset: int | None = None, max_bytes: int | None = None,
    ) -> JobOutput:
        """Returns what a job, by id or name, has written; without an offset the end of it."""
        r = self._call("jobOutput", job=job, session=session, stdoutOffset=stdout_offset,
                             stderrOffset=stderr_offset, maxBytes=max_bytes)
        return JobOutput(parse(Job, r["job"]), Part.of_stream(r["stdout"]), Part.of_stream(r["stderr"]))

    def wait_job(self, job: str, *, session: str | None = None, timeout: float = 0) -> Job:
        """Waits until a job has ended, or the time is over, and returns it as it is then."""
        r = self._call("waitJob", job=job, session=session, timeoutMs=ms(timeout))
        return parse(Job, r["job"])

    def signal_job(self, job: str, signal: str, *, session: str | None = None) -> Job:
        return parse(Job, (self._call("signalJob", job=job, session=session, signal=signal))["job"])

    def read_part(self, path: str, offset: int = 0, size: int = CHUNK) -> Part:
        """Returns a part of a file, of at most 32 MiB; a negative offset counts from the end."""
        r = self._call("readFile", path=path, offset=offset, bytes=size)
        return Part(decoded(r), r["offset"], r["size"])

    def read(self, path: str) -> bytes:
        """Returns the content of a file of any size."""
        part = self.read_part(path)
        pieces = [part.data]
        while part.next < part.total and part.data:
            part = self.read_part(path, part.next)
            pieces.append(part.data)
        return b"".join(pieces)

    def write(self, path: str, content: str | bytes) -> None:
        """Writes a file, and missing directories: it has all of the new content, or the old one.

        One of more than 16 MiB crosses in several calls, and needs sh, cat and mv inside.
        """
        data = content.encode() if isinstance(content, str) else content
        if len(data) <= CHUNK:
            return self.write_files({path: data})
        part = f"{path}.{secrets.token_hex(8)}.part"
        try:
            self.write_files({part: data[:CHUNK]})
            for at in range(CHUNK, len(data), CHUNK):
                self._shell('[ -f "$0" ] && cat >> "$0"', part, stdin=data[at:at + CHUNK])
            self._shell('mv -fT -- "$0" "$1"', part, path)
        except BaseException:
            self._call("runCommand", command=["rm", "-f", "--", part])
            raise

    def _shell(self, script: str, *args: str, stdin: bytes | None = None) -> None:
        r = self.run(["sh", "-c", script, *args], stdin=stdin)
        if r.exit_code:
            raise InvalidError(f"{args[-1]}: {(r.stderr or r.start_error).strip()}", "invalid")

    def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Writes small files by one call: each has all of its new content, or the old one."""
        self._call("writeFiles", files={path: encoded(content) for path, content in files.items()})

    def rules(self, path: str | None = None) -> JSON:
        return self._call("rules", path=path)

    def audit(self, limit: int | None = None) -> JSON:
        return self._call("audit", limit=limit)

    def changes(
        self, paths: Iterable[str | bytes] = (), *, lines: bool | None = None, limit: int | None = None
    ) -> JSON:
        return self._call("changes", **paths64(paths), lines=lines, limit=limit)

    def diff(self, paths: Iterable[str | bytes] = (), *, max_bytes: int | None = None) -> bytes:
        """Returns what a sandbox with cow has changed, as a unified diff."""
        return decoded(self._call("diff", **paths64(paths), maxBytes=max_bytes))

    def apply(
        self, paths: Iterable[str | bytes] = (), *, dry_run: bool | None = None, force: bool | None = None
    ) -> JSON:
        return self._call("applyChanges", **paths64(paths), dryRun=dry_run, force=force)

    def discard(self, paths: Iterable[str | bytes] = ()) -> JSON:
        return self._call("discardChanges", **paths64(paths))

    def fork(self, *, memory: bool | None = None) -> Sandbox:
        """Creates a second sandbox with the same changes and, with memory, processes."""
        return (self.forks(1, memory=memory))[0]

    def forks(self, count: int, *, memory: bool | None = None) -> list[Sandbox]:
        """Creates sandboxes as fork does, all of one moment."""
        made = self._call("forkSandbox", count=count, memory=memory)
        return [Sandbox(self.client, parse(Info, s)) for s in made["sandboxes"]]

    def snapshot(self, name: str, *, memory: bool | None = None) -> Snapshot:
        return parse(Snapshot, self._call("createSnapshot", snapshot=name, memory=memory))

    def snapshots(self) -> list[Snapshot]:
        return [parse(Snapshot, s) for s in (self._call("listSnapshots"))["snapshots"]]

    def restore(self, name: str) -> None:
        """Replaces the changes by a snapshot; all processes end."""
        self._call("restoreSnapshot", snapshot=name)

    def remove_snapshot(self, name: str) -> None:
        self._call("removeSnapshot", snapshot=name)

    def port_url(self, port: int, path: str = "") -> str:
        """Returns where the service passes HTTP and WebSocket on to a port inside. It needs the key."""
        return f"{self.client._http.base_url}/sandboxes/{self.id}/port/{port}/{path.lstrip('/')}"

    def request(self, method: str, port: int, path: str = "", **options: Any) -> httpx.Response:
        """Makes an HTTP request to a server at a port inside; options are those of httpx."""
        return self.client._http.request(method, self.port_url(port, path), **options)
