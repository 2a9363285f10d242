"""Sandboxes of wolffia for Inspect: sandbox="wolffia"."""

from __future__ import annotations

import shlex
from typing import Any, Literal, NoReturn, overload

import anyio
from inspect_ai.util import (
    ExecResult, OutputLimitExceededError, SandboxConnection, SandboxEnvironment, SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits, SandboxUnavailableError, SandboxUserUnsupportedError, sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from wolffia import (
    AsyncClient, AsyncSandbox, DeniedError, InvalidError, NotFoundError, Owner, TimedOutError, UnavailableError,
    UnsupportedError, WolffiaError,
)

__all__ = ["WolffiaConfig", "WolffiaSandboxEnvironment"]

LABEL = "inspect-task"
MOST_OUTPUT = 16 << 20  # bytes of a stream that the service keeps


class WolffiaConfig(BaseModel, frozen=True):
    """How the sandbox of a sample is made. None and empty: as the service's own configuration says."""

    model_config = ConfigDict(extra="forbid")
    image: str | None = None
    env: dict[str, str] = {}
    network: Literal["none", "filtered"] | None = None
    egress: dict[str, Any] | None = None
    """Which names it can reach: {"allow": ["pypi.org"]}."""
    cow: bool = True
    """Each sandbox has its own copy of the service's codebase."""
    ttl: float | None = 24 * 3600
    """Seconds after which it is destroyed, whatever became of Inspect."""

    def __hash__(self) -> int:  # Inspect groups samples by their configurations
        return hash(self.model_dump_json())


def config_of(config: SandboxEnvironmentConfigType | None) -> WolffiaConfig:
    """Returns a configuration; a text, as of --sandbox wolffia:IMAGE, is an image."""
    if isinstance(config, WolffiaConfig):
        return config
    if isinstance(config, str):
        return WolffiaConfig(image=config)
    if config is None:
        return WolffiaConfig()
    raise ValueError(f"sandbox config of type {type(config).__name__}: it must be a WolffiaConfig, or the name of an image")


def client_of() -> AsyncClient:
    return AsyncClient(owner=Owner.default() if Owner.default() != Owner() else Owner(project_id="inspect_ai"))


@sandboxenv(name="wolffia")
class WolffiaSandboxEnvironment(SandboxEnvironment):
    def __init__(self, client: AsyncClient, box: AsyncSandbox) -> None:
        super().__init__()
        self.client, self.box = client, box
        self._names: set[str] | None = None

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        c, client = config_of(config), client_of()
        try:
            box = await client.add(
                image=c.image, env=c.env, network=c.network, egress=c.egress, cow=c.cow, ttl=c.ttl,
                metadata={LABEL: task_name})
        except BaseException:
            with anyio.CancelScope(shield=True):
                await client.aclose()
            raise
        return {"default": cls(client, box)}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment], interrupted: bool,
    ) -> None:
        with anyio.CancelScope(shield=True):
            for environment in environments.values():
                own = environment.as_type(WolffiaSandboxEnvironment)
                async with own.client:
                    try:
                        await own.box.destroy()
                    except NotFoundError:
                        pass  # its time was over

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        async with client_of() as client:
            for info in await client.list():
                if LABEL in info.metadata and id in (None, info.sandbox_id):
                    await client.sandbox(info.sandbox_id).destroy()
                    print(f"destroyed sandbox {info.sandbox_id} of {info.metadata[LABEL]}")

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return WolffiaConfig(**config)

    def default_polling_interval(self) -> float:
        return 0.2

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        running = {i.sandbox_id for i in await self.client.list() if i.state == "running"}
        if self.box.id not in running:
            raise ConnectionError(f"sandbox {self.box.id} is not running")
        as_user = ["--user", user] if user else []
        command = shlex.join(["wolffia", "exec", "-it", *as_user, self.box.id, "--", "sh"])
        return SandboxConnection(type="wolffia", command=command, container=self.box.id)

    async def exec(
        self, cmd: list[str], input: str | bytes | None = None, cwd: str | None = None,
        env: dict[str, str] | None = None, user: str | None = None, timeout: int | None = None,
        timeout_retry: bool = True, concurrency: bool = True,
    ) -> ExecResult[str]:
        limit = min(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE, MOST_OUTPUT)
        if cwd is not None and not cwd.startswith("/"):
            cwd = f"{self.box.info.mount_point}/{cwd}"
        if user is not None and await self._is_own(user):
            user = None
        try:
            r = await self.box.run(cmd, stdin=input, cwd=cwd, env=env, user=user, timeout=timeout, max_bytes=limit)
        except TimedOutError as late:
            error = TimeoutError(f"Command timed out after {timeout} seconds")
            setattr(error, "truncated_output", late.output.stdout + late.output.stderr)
            raise error from late
        except UnsupportedError as e:
            if user is None:
                raise
            raise SandboxUserUnsupportedError(e.message) from e
        except (NotFoundError, UnavailableError) as e:
            raise SandboxUnavailableError(e.message) from e
        if r.exit_code == 126 and r.start_error:
            raise PermissionError(r.start_error)
        if r.truncated:
            text = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR
            raise OutputLimitExceededError(text, r.stdout if r.stdout_dropped else r.stderr)
        return ExecResult(r.exit_code == 0, r.exit_code, r.stdout, r.stderr + r.start_error)

    async def _is_own(self, user: str) -> bool:
        """Reports whether commands run as this user anyway."""
        if self._names is None:
            r = await self.box.run("id -u; id -un")
            self._names = set(r.stdout.split())
        return user in self._names

    async def write_file(self, file: str, contents: str | bytes) -> None:
        # The service replaces a file as a whole, which a file without permission to write does not keep.
        r = await self.box.run(
            ["sh", "-c", '[ -d "$0" ] && exit 2; [ -e "$0" ] && ! [ -w "$0" ] && exit 3; exit 0', file],
            cwd=self.box.info.mount_point or None)
        if r.exit_code == 2:
            raise IsADirectoryError(f"{file}: is a directory")
        if r.exit_code == 3:
            raise PermissionError(f"{file}: permission denied")
        try:
            await self.box.write(file, contents)
        except WolffiaError as e:
            await self._failed(file, e)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit, content = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE, bytearray()
        try:
            while True:
                part = await self.box.read_part(file, len(content))
                content += part.data
                if max(part.total, len(content)) > limit:
                    raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
                if len(content) >= part.total or not part.data:
                    return content.decode() if text else bytes(content)
        except WolffiaError as e:
            await self._failed(file, e)

    async def _failed(self, file: str, e: WolffiaError) -> NoReturn:
        """Raises the error that Inspect wants for one of the service."""
        if isinstance(e, NotFoundError) and "no such file" in e.message:
            raise FileNotFoundError(f"{file}: no such file") from e
        if isinstance(e, DeniedError):
            raise PermissionError(f"{file}: permission denied") from e
        if isinstance(e, InvalidError) and (await self.box.run(["test", "-d", file])).exit_code == 0:
            raise IsADirectoryError(f"{file}: is a directory") from e
        if isinstance(e, (NotFoundError, UnavailableError)):
            raise SandboxUnavailableError(e.message) from e
        raise e
