"""Sandboxes of wolffia for the OpenAI Agents SDK."""

from __future__ import annotations

import io
import secrets
import uuid
from pathlib import Path
from typing import Any, Literal

from agents.sandbox.errors import (
    ExecTimeoutError, ExecTransportError, WorkspaceArchiveReadError, WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError, WorkspaceWriteTypeError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER, RuntimeHelperScript
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.session.sandbox_session import SandboxSession
from agents.sandbox.session.sandbox_session_state import SandboxSessionState
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, User

from wolffia import AsyncClient, AsyncSandbox, NotFoundError, Output, Result, TimedOutError, WolffiaError

__all__ = [
    "WolffiaSandboxClient", "WolffiaSandboxClientOptions", "WolffiaSandboxSession", "WolffiaSandboxSessionState",
]


class WolffiaSandboxClientOptions(BaseSandboxClientOptions):
    """How sandboxes are made. None: as the service's own configuration says."""

    type: Literal["wolffia"] = "wolffia"
    image: str | None = None
    network: Literal["none", "filtered"] | None = None
    egress: dict[str, Any] | None = None
    """Which names a sandbox can reach: {"allow": ["pypi.org"]}."""
    cow: bool = True
    """Each sandbox has its own copy of the service's codebase."""
    ttl: float | None = 24 * 3600
    """Seconds after which a sandbox is destroyed, whatever became of its client."""


class WolffiaSandboxSessionState(SandboxSessionState):
    type: Literal["wolffia"] = "wolffia"
    sandbox_id: str
    options: WolffiaSandboxClientOptions


class WolffiaSandboxSession(BaseSandboxSession):
    state: WolffiaSandboxSessionState

    def __init__(self, client: AsyncClient, state: WolffiaSandboxSessionState) -> None:
        self.client, self.state = client, state

    @property
    def box(self) -> AsyncSandbox:
        return self.client.sandbox(self.state.sandbox_id)

    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    def _current_runtime_helper_cache_key(self) -> object | None:
        return self.state.sandbox_id

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    async def _prepare_backend_workspace(self) -> None:
        root = self.state.manifest.root
        r = await self.box.run(["mkdir", "-p", "--", root])
        if r.exit_code:
            raise WorkspaceArchiveWriteError(path=Path(root), message=r.stderr.strip())

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        env = {k: v for k, v in (await self.state.manifest.environment.resolve()).items() if v is not None}
        # The first commands make the workspace.
        cwd = self.state.manifest.root if self.state.workspace_root_ready or self._start_workspace_root_ready else "/"
        try:
            r = await self.box.run([str(c) for c in command], cwd=cwd, env=env, timeout=timeout)
        except TimedOutError as late:
            raise ExecTimeoutError(command=command, timeout_s=timeout, cause=late) from late
        except WolffiaError as e:
            raise ExecTransportError(command=command, cause=e, message=e.message) from e
        return ExecResult(
            stdout=r.stdout_bytes, stderr=r.stderr_bytes + r.start_error.encode(), exit_code=r.exit_code)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        at = await (self._check_read_with_exec(path, user=user) if user else self._validate_path_access(path))
        try:
            return io.BytesIO(await self.box.read(at.as_posix()))
        except NotFoundError as e:
            raise WorkspaceReadNotFoundError(path=path, cause=e) from e
        except WolffiaError as e:
            raise WorkspaceArchiveReadError(path=path, cause=e, context={"reason": e.message}) from e

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        at = await (self._check_write_with_exec(path, user=user) if user
                    else self._validate_path_access(path, for_write=True))
        content = data.read()
        if not isinstance(content, (str, bytes, bytearray)):
            raise WorkspaceWriteTypeError(path=path, actual_type=type(content).__name__)
        try:
            await self.box.write(at.as_posix(), content if isinstance(content, str) else bytes(content))
        except WolffiaError as e:
            raise WorkspaceArchiveWriteError(path=path, cause=e, context={"reason": e.message}) from e

    async def running(self) -> bool:
        try:
            return any(i.sandbox_id == self.state.sandbox_id and i.state == "running" for i in await self.client.list())
        except WolffiaError:
            return False

    async def persist_workspace(self) -> io.IOBase:
        root, tar, said = self.state.manifest.root, io.BytesIO(), b""
        skip = [f"--exclude=./{p.as_posix()}" for p in self._persist_workspace_skip_relpaths()]
        try:
            async for part in self.box.stream(["tar", "-C", root, "--no-wildcards", *skip, "-cf", "-", "."]):
                if isinstance(part, Output) and part.stream == "stdout":
                    tar.write(part.data)
                elif isinstance(part, Output):
                    said = (said + part.data)[-4096:]
                elif isinstance(part, Result) and part.exit_code:
                    reason = part.start_error or said.decode(errors="replace")
                    raise WorkspaceArchiveReadError(path=Path(root), context={"reason": reason})
        except WolffiaError as e:
            raise WorkspaceArchiveReadError(path=Path(root), cause=e, context={"reason": e.message}) from e
        tar.seek(0)
        return tar

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        # tar runs inside, so an archive that leaves the workspace stays in the sandbox.
        root, file = self.state.manifest.root, f"/tmp/.wolffia-{secrets.token_hex(8)}.tar"
        try:
            await self.box.write(file, bytes(data.read()))
            r = await self.box.run(
                ["sh", "-c", 'mkdir -p -- "$1" && tar -C "$1" -xf "$0"; e=$?; rm -f -- "$0"; exit $e', file, root])
        except WolffiaError as e:
            raise WorkspaceArchiveWriteError(path=Path(root), cause=e, message=e.message) from e
        if r.exit_code:
            raise WorkspaceArchiveWriteError(path=Path(root), message=r.stderr.strip() or r.start_error)


class WolffiaSandboxClient(BaseSandboxClient[WolffiaSandboxClientOptions]):
    """Makes sessions in sandboxes of a service. Who gives it a client closes that; else aclose does."""

    backend_id = "wolffia"
    supports_default_options = True

    def __init__(self, client: AsyncClient | None = None) -> None:
        super().__init__()
        self.client = client or AsyncClient()

    async def aclose(self) -> None:
        await self.client.aclose()

    async def _add(self, o: WolffiaSandboxClientOptions, session_id: uuid.UUID) -> str:
        box = await self.client.add(
            image=o.image, network=o.network, egress=o.egress, cow=o.cow, ttl=o.ttl,
            metadata={"openai-agents-session": str(session_id)})
        return box.id

    async def create(
        self, *, snapshot: SnapshotSpec | SnapshotBase | None = None, manifest: Manifest | None = None,
        options: WolffiaSandboxClientOptions | None = None,
    ) -> SandboxSession:
        options, session_id = options or WolffiaSandboxClientOptions(), uuid.uuid4()
        checked = self._validate_manifest_for_create(manifest or Manifest())
        state = WolffiaSandboxSessionState(
            session_id=session_id, manifest=checked, snapshot=resolve_snapshot(snapshot, str(session_id)),
            sandbox_id=await self._add(options, session_id), options=options)
        return self._wrap_session(WolffiaSandboxSession(self.client, state))

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        if not isinstance(state, WolffiaSandboxSessionState):
            raise TypeError(f"session state of type {type(state).__name__}: it must be a WolffiaSandboxSessionState")
        state.assert_path_grants_rebound()
        session = WolffiaSandboxSession(self.client, state)
        same = await session.running()
        if not same:
            state.sandbox_id, state.workspace_root_ready = await self._add(state.options, state.session_id), False
        session._set_start_state_preserved(same)
        return self._wrap_session(session)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        inner = session._inner
        if not isinstance(inner, WolffiaSandboxSession):
            raise TypeError(f"session of type {type(inner).__name__}: it must be a WolffiaSandboxSession")
        try:
            await inner.box.destroy()
        except NotFoundError:
            pass  # its time was over
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, WolffiaSandboxSessionState)
