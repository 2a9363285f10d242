"""The asynchronous client. generate.py makes the synchronous one, _sync.py, of this file."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
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


class AsyncClient:
    """A client of one service, for one owner. Close it, or use it as a context manager.

    address is unix:PATH, or http://HOST:PORT; key is one of --api-keys. Without them WOLFFIA_ADDRESS and
    WOLFFIA_API_KEY count, and then the default socket; without owner WOLFFIA_OWNER. It is safe for concurrent use.
    """

    def __init__(self, address: str | None = None, key: str | None = None, owner: Owner | None = None) -> None:
        self.address, self.owner = address or default_address(), owner or Owner.default()
        key = key or os.environ.get("WOLFFIA_API_KEY")
        unix = self.address.removeprefix("unix:") if self.address.startswith("unix:") else None
        self._http = httpx.AsyncClient(
            base_url="http://wolffia" if unix else self.address,
            transport=httpx.AsyncHTTPTransport(uds=unix, limits=httpx.Limits(max_connections=None)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(60, read=None),  # the service bounds what it does
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    def _body(self, about: Mapping[str, Any]) -> JSON:
        owner = {"organizationId": self.owner.organization_id, "projectId": self.owner.project_id,
                 "userId": self.owner.user_id}
        return owner | {k: v for k, v in about.items() if v is not None}

    async def call(self, name: str, /, **about: Any) -> JSON:
        """Makes a call for the owner, and returns the reply. Fields that are None are left out."""
        return await self._post(name, self._body(about))

    async def _post(self, name: str, body: JSON) -> JSON:
        try:
            r = await self._http.post(f"/api/v1/{name}", json=body)
        except httpx.TransportError as e:
            raise UnavailableError(f"the service at {self.address}: {e or type(e).__name__}") from e
        reply = _object(r.content)
        if r.is_error:
            raise error_of(r.status_code, reply)
        return reply

    async def stream(self, name: str, /, **about: Any) -> AsyncIterator[StreamPart]:
        """Makes a call that answers with events: pieces of output, and at last the result."""
        try:
            async with self._http.stream("POST", f"/api/v1/{name}", json=self._body(about)) as r:
                if r.is_error:
                    raise error_of(r.status_code, _object(await r.aread()))
                event = ""
                async for line in r.aiter_lines():
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

    async def add(
        self, *, image: str | None = None, env: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None, ttl: float | None = None, network: str | None = None,
        egress: JSON | None = None, cow: bool | None = None, **settings: Unpack[Settings],
    ) -> AsyncSandbox:
        """Creates one more sandbox of the owner, which is destroyed ttl seconds from now, if that is given."""
        r = await self.call("addSandbox", image=image, env=env, metadata=metadata, ttlMs=ms(ttl), network=network,
                            egress=egress, cow=cow, **settings)
        return AsyncSandbox(self, parse(Info, r))

    async def create(
        self, *, git_config: JSON | None = None, network: str | None = None, egress: JSON | None = None,
        cow: bool | None = None, **settings: Unpack[Settings],
    ) -> AsyncSandbox:
        """Creates the owner's own sandbox; if there is one, the error is ConflictError."""
        r = await self.call("createSandbox", gitConfig=git_config, network=network, egress=egress, cow=cow, **settings)
        return AsyncSandbox(self, parse(Info, r))

    async def ensure(
        self, *, git_config: JSON | None = None, network: str | None = None, egress: JSON | None = None,
        cow: bool | None = None, **settings: Unpack[Settings],
    ) -> AsyncSandbox:
        """Returns the owner's own sandbox, which is created if there is none that answers."""
        r = await self.call("ensureSandbox", gitConfig=git_config, network=network, egress=egress, cow=cow, **settings)
        return AsyncSandbox(self, parse(Info, r))

    async def find(self) -> AsyncSandbox:
        """Returns the owner's own sandbox."""
        return AsyncSandbox(self, parse(Info, await self.call("findSandbox")))

    def sandbox(self, sandbox_id: str) -> AsyncSandbox:
        """Returns a handle on a sandbox, without a call."""
        return AsyncSandbox(self, Info(sandbox_id))

    async def list(self) -> list[Info]:
        """Returns the sandboxes of the owner, newest first."""
        return [parse(Info, s) for s in (await self.call("listSandboxes"))["sandboxes"]]

    async def running(self) -> Sequence[Info]:
        """Returns the running sandboxes of all owners that the key may know."""
        return [parse(Info, s) for s in (await self._post("scanRunningSandboxes", {}))["sandboxes"]]

    async def owners(self) -> Sequence[JSON]:
        """Returns the owners that the key may know, and what they have."""
        return tuple((await self._post("listOwners", {}))["owners"])

    async def openapi(self) -> JSON:
        """Returns the OpenAPI document of the service."""
        r = await self._http.get("/api/v1/openapi.json")
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


class AsyncSandbox:
    """A sandbox. As a context manager it is destroyed at the end. Times are in seconds."""

    def __init__(self, client: AsyncClient, info: Info) -> None:
        self.client, self.info, self.id = client, info, info.sandbox_id

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.destroy()

    async def _call(self, name: str, /, **about: Any) -> JSON:
        return await self.client.call(name, sandboxId=self.id, **about)

    async def destroy(self) -> None:
        await self._call("destroySandbox")

    async def touch(self, ttl: float | None = None) -> None:
        """Restarts the idle time, and sets the time to live from now on; 0: none; None: unchanged."""
        await self._call("touchSandbox", ttlMs=0 if ttl == 0 else ms(ttl))

    async def pause(self) -> None:
        """Has all processes stand still, with what they have in memory. UnsupportedError where that is impossible."""
        await self._call("pauseSandbox")

    async def resume(self) -> None:
        """Ends a pause; a running sandbox runs on."""
        await self._call("resumeSandbox")

    async def change_network(self, egress: JSON) -> JSON:
        """Replaces what a sandbox with a filtered network can reach; {}: nothing. It is in force at the return."""
        changed: JSON = (await self._call("changeNetwork", egress=egress))["egress"]
        return changed

    async def questions(self, seen: int = 0, wait: float = 0) -> tuple[list[JSON], int]:
        """Returns the accesses that wait for an answer, once they are others than at seen, or after wait."""
        reply = await self._call("questions", seen=seen, waitMs=ms(wait))
        return reply["questions"], reply["seen"]

    async def answer(
        self, question: str, allow: bool, *, scope: str = "once", target: str | None = None, path: str | None = None,
        by: str | None = None,
    ) -> None:
        """Answers a question: for scope once or sandbox. path repeats the path of what may be a secret."""
        await self._call("answerQuestion", question=question, allow=allow, scope=scope, target=target, path=path, by=by)

    async def run(
        self, command: str | Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None, user: str | None = None, timeout: float | None = None,
        max_bytes: int | None = None,
    ) -> Result:
        """Runs a program to its end, or a text by sh. Any number run at the same time. See TimedOutError."""
        return Result.of(await self._call(
            "runCommand", **argv(command, stdin), cwd=cwd, env=env, user=user, timeoutMs=ms(timeout),
            maxBytes=max_bytes))

    async def stream(
        self, command: str | Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None,
        user: str | None = None, timeout: float | None = None,
    ) -> AsyncIterator[StreamPart]:
        """Runs a program, or a text by sh, and yields its output as it comes, and at last the Result."""
        program = ["sh", "-c", command] if isinstance(command, str) else list(command)
        async for part in self.client.stream(
            "streamCommand", sandboxId=self.id, command=program, cwd=cwd, env=env, user=user, timeoutMs=ms(timeout)
        ):
            yield part

    async def bash(
        self, command: str, *, cwd: str | None = None, timeout: float | None = None, operation_id: str | None = None
    ) -> Result:
        """Evaluates a command in the persistent shell. With an operation_id it outlives the request."""
        return Result.of(await self._call(
            "executeBash", command=command, cwd=cwd, timeoutMs=ms(timeout), operationId=operation_id))

    async def stream_bash(
        self, command: str, *, cwd: str | None = None, timeout: float | None = None
    ) -> AsyncIterator[StreamPart]:
        """Evaluates a command in the persistent shell, and yields as stream does."""
        async for part in self.client.stream(
            "streamBash", sandboxId=self.id, command=command, cwd=cwd, timeoutMs=ms(timeout)
        ):
            yield part

    async def cancel(self, operation_id: str) -> None:
        """Interrupts a command of bash."""
        await self._call("cancelOperation", operationId=operation_id)

    async def start_job(
        self, command: str, *, name: str | None = None, session: str | None = None, cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Job:
        """Starts a background job, which outlives the request and the service."""
        r = await self._call("startJob", command=command, name=name, session=session, cwd=cwd, env=env)
        return parse(Job, r["job"])

    async def list_jobs(self, *, session: str | None = None) -> list[Job]:
        return [parse(Job, j) for j in (await self._call("listJobs", session=session))["jobs"]]

    async def job_output(
        self, job: str, *, session: str | None = None, stdout_offset: int | None = None,
        stderr_offset: int | None = None, max_bytes: int | None = None,
    ) -> JobOutput:
        """Returns what a job, by id or name, has written; without an offset the end of it."""
        r = await self._call("jobOutput", job=job, session=session, stdoutOffset=stdout_offset,
                             stderrOffset=stderr_offset, maxBytes=max_bytes)
        return JobOutput(parse(Job, r["job"]), Part.of_stream(r["stdout"]), Part.of_stream(r["stderr"]))

    async def wait_job(self, job: str, *, session: str | None = None, timeout: float = 0) -> Job:
        """Waits until a job has ended, or the time is over, and returns it as it is then."""
        r = await self._call("waitJob", job=job, session=session, timeoutMs=ms(timeout))
        return parse(Job, r["job"])

    async def signal_job(self, job: str, signal: str, *, session: str | None = None) -> Job:
        return parse(Job, (await self._call("signalJob", job=job, session=session, signal=signal))["job"])

    async def read_part(self, path: str, offset: int = 0, size: int = CHUNK) -> Part:
        """Returns a part of a file, of at most 32 MiB; a negative offset counts from the end."""
        r = await self._call("readFile", path=path, offset=offset, bytes=size)
        return Part(decoded(r), r["offset"], r["size"])

    async def read(self, path: str) -> bytes:
        """Returns the content of a file of any size."""
        part = await self.read_part(path)
        pieces = [part.data]
        while part.next < part.total and part.data:
            part = await self.read_part(path, part.next)
            pieces.append(part.data)
        return b"".join(pieces)

    async def write(self, path: str, content: str | bytes) -> None:
        """Writes a file, and missing directories: it has all of the new content, or the old one.

        One of more than 16 MiB crosses in several calls, and needs sh, cat and mv inside.
        """
        data = content.encode() if isinstance(content, str) else content
        if len(data) <= CHUNK:
            return await self.write_files({path: data})
        part = f"{path}.{secrets.token_hex(8)}.part"
        try:
            await self.write_files({part: data[:CHUNK]})
            for at in range(CHUNK, len(data), CHUNK):
                await self._shell('[ -f "$0" ] && cat >> "$0"', part, stdin=data[at:at + CHUNK])
            await self._shell('mv -fT -- "$0" "$1"', part, path)
        except BaseException:
            await self._call("runCommand", command=["rm", "-f", "--", part])
            raise

    async def _shell(self, script: str, *args: str, stdin: bytes | None = None) -> None:
        r = await self.run(["sh", "-c", script, *args], stdin=stdin)
        if r.exit_code:
            raise InvalidError(f"{args[-1]}: {(r.stderr or r.start_error).strip()}", "invalid")

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Writes small files by one call: each has all of its new content, or the old one."""
        await self._call("writeFiles", files={path: encoded(content) for path, content in files.items()})

    async def rules(self, path: str | None = None) -> JSON:
        return await self._call("rules", path=path)

    async def audit(self, limit: int | None = None) -> JSON:
        return await self._call("audit", limit=limit)

    async def changes(
        self, paths: Iterable[str | bytes] = (), *, lines: bool | None = None, limit: int | None = None
    ) -> JSON:
        return await self._call("changes", **paths64(paths), lines=lines, limit=limit)

    async def diff(self, paths: Iterable[str | bytes] = (), *, max_bytes: int | None = None) -> bytes:
        """Returns what a sandbox with cow has changed, as a unified diff."""
        return decoded(await self._call("diff", **paths64(paths), maxBytes=max_bytes))

    async def apply(
        self, paths: Iterable[str | bytes] = (), *, dry_run: bool | None = None, force: bool | None = None
    ) -> JSON:
        return await self._call("applyChanges", **paths64(paths), dryRun=dry_run, force=force)

    async def discard(self, paths: Iterable[str | bytes] = ()) -> JSON:
        return await self._call("discardChanges", **paths64(paths))

    async def fork(self, *, memory: bool | None = None) -> AsyncSandbox:
        """Creates a second sandbox with the same changes and, with memory, processes."""
        return (await self.forks(1, memory=memory))[0]

    async def forks(self, count: int, *, memory: bool | None = None) -> list[AsyncSandbox]:
        """Creates sandboxes as fork does, all of one moment."""
        made = await self._call("forkSandbox", count=count, memory=memory)
        return [AsyncSandbox(self.client, parse(Info, s)) for s in made["sandboxes"]]

    async def snapshot(self, name: str, *, memory: bool | None = None) -> Snapshot:
        return parse(Snapshot, await self._call("createSnapshot", snapshot=name, memory=memory))

    async def snapshots(self) -> list[Snapshot]:
        return [parse(Snapshot, s) for s in (await self._call("listSnapshots"))["snapshots"]]

    async def restore(self, name: str) -> None:
        """Replaces the changes by a snapshot; all processes end."""
        await self._call("restoreSnapshot", snapshot=name)

    async def remove_snapshot(self, name: str) -> None:
        await self._call("removeSnapshot", snapshot=name)

    def port_url(self, port: int, path: str = "") -> str:
        """Returns where the service passes HTTP and WebSocket on to a port inside. It needs the key."""
        return f"{self.client._http.base_url}/sandboxes/{self.id}/port/{port}/{path.lstrip('/')}"

    async def request(self, method: str, port: int, path: str = "", **options: Any) -> httpx.Response:
        """Makes an HTTP request to a server at a port inside; options are those of httpx."""
        return await self.client._http.request(method, self.port_url(port, path), **options)
