"""Sandboxes of wolffia for Harbor: --env wolffia_harbor:WolffiaEnvironment."""

from __future__ import annotations

import asyncio
import io
import os
import shlex
import shutil
import tarfile
from pathlib import Path
from typing import Any, override

from harbor.environments.base import BaseEnvironment, ExecResult, SandboxBuildFailedError, transfer_tar_filter
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import effective_exec_cwd, require_agent_environment_definition
from harbor.environments.options import EnvironmentOptions
from harbor.models.task.config import NetworkMode, NetworkPolicy
from harbor.models.trial.paths import EnvironmentPaths
from pydantic import Field
from wolffia import AsyncClient, AsyncSandbox, NotFoundError, Owner, Result, TimedOutError, UnsupportedError

__all__ = ["WolffiaEnvironment", "WolffiaOptions"]

LABEL = "harbor-session"
SHELL = ["sh", "-c", 'command -v bash >/dev/null && exec bash -c "$0"; exec sh -c "$0"']
ROOT = (None, "root", "0", 0)


class WolffiaOptions(EnvironmentOptions):
    """What --environment-kwarg KEY=VALUE sets."""

    image: str | None = Field(default=None, description="An image in place of the task's.")
    ttl: float = Field(default=24 * 3600, gt=0, description="Seconds after which the sandbox is destroyed.")
    program: str = Field(default="wolffia", description="The program that builds a task's Dockerfile, on the service's host.")


def egress_of(policy: NetworkPolicy) -> dict[str, Any]:
    """Returns the names that a policy allows, as wolffia takes them."""
    return {"allow": list(policy.allowed_hosts)}


class WolffiaEnvironment(BaseEnvironment):
    """A sandbox of a running wolffia serve, which WOLFFIA_ADDRESS and WOLFFIA_API_KEY name."""

    options_model = WolffiaOptions
    options: WolffiaOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._client: AsyncClient | None = None
        self._box: AsyncSandbox | None = None
        self._has_root = True
        super().__init__(*args, **kwargs)

    @staticmethod
    @override
    def type() -> str:
        return "wolffia"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True, dynamic_network_policy=True)

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities()  # limits are those of the service's flags

    @override
    def _validate_definition(self) -> None:
        if (self.environment_dir / "docker-compose.yaml").exists():
            raise ValueError(f"{self.environment_dir}: wolffia does not run compose files: use one image")
        if self.options.image is None:
            require_agent_environment_definition(
                self.environment_dir, docker_image=self.task_env_config.docker_image)

    @property
    def _policies(self) -> list[NetworkPolicy]:
        return [self.network_policy, *self._phase_network_policies]

    @override
    def _validate_network_policy_support(self) -> None:
        super()._validate_network_policy_support()  # type: ignore[no-untyped-call]
        modes = {p.network_mode for p in self._policies}
        if NetworkMode.PUBLIC in modes and len(modes) > 1:
            raise ValueError("network: a sandbox of wolffia cannot be public in one phase and restricted in another: "
                             "name the hosts of the public phase in an allowlist")

    async def _image(self, force_build: bool) -> str:
        """Returns the name of the sandbox's image, which is built if the task has a Dockerfile only."""
        image = self.options.image or self.task_env_config.docker_image
        if image is not None and not force_build or not (self.environment_dir / "Dockerfile").exists():
            return str(image)
        if shutil.which(self.options.program) is None:
            raise SandboxBuildFailedError(f"{self.options.program}: not found; install wolffia here, or set docker_image")
        name = f"harbor:{self.environment_id[:16]}"
        build = [self.options.program, "build", "--quiet", "-t", name]
        for host in self.network_policy.allowed_hosts:
            build += ["--allow-host", host]
        process = await asyncio.create_subprocess_exec(
            *build, *(["--no-cache"] if force_build else []), str(self.environment_dir),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
        try:
            errors = (await process.communicate())[1].decode(errors="replace")
        except BaseException:
            process.terminate()
            raise
        if process.returncode != 0:
            raise SandboxBuildFailedError(f"{shlex.join(build)}: {errors.strip()}")
        return name

    @override
    async def start(self, force_build: bool) -> None:
        owner = Owner.default()
        self._client = AsyncClient(owner=owner if owner != Owner() else Owner(project_id="harbor"))
        restricted = not self._network_is_public
        self._box = await self._client.add(
            image=await self._image(force_build), env=self._startup_env(), ttl=self.options.ttl, cow=True,
            network="filtered" if restricted else None, egress=egress_of(self.network_policy) if restricted else None,
            metadata={LABEL: self.session_id})
        logs = (EnvironmentPaths.agent_dir, EnvironmentPaths.verifier_dir, EnvironmentPaths.artifacts_dir)
        made = await self.ensure_dirs(logs)
        if made is not None and made.return_code != 0:
            raise SandboxBuildFailedError(f"the directories of logs: {made.stderr}; start wolffia serve with --root")
        if workdir := self.task_env_config.workdir:
            await self.exec(f"mkdir -p {shlex.quote(workdir)}", cwd="/", user="root")
        await self._upload_environment_dir_after_start()

    @override
    async def stop(self, delete: bool) -> None:
        if self._client is None:
            return
        try:
            if delete and self._box is not None:
                await self._box.destroy()
        except NotFoundError:
            pass  # its time was over
        finally:
            await self._client.aclose()
            self._client = self._box = None

    @property
    def box(self) -> AsyncSandbox:
        """The sandbox, between start and stop."""
        if self._box is None:
            raise RuntimeError("the environment has not been started")
        return self._box

    @override
    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        await self.box.change_network(egress_of(network_policy))

    @override
    async def exec(
        self, command: str, cwd: str | None = None, env: dict[str, str] | None = None,
        timeout_sec: int | None = None, user: str | int | None = None,
    ) -> ExecResult:
        cwd = effective_exec_cwd(cwd, self.task_env_config.workdir, None)
        user = self._resolve_user(user)
        try:
            r = await self._run([*SHELL, command], cwd, self._merge_env(env), timeout_sec, user)
        except TimedOutError as late:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds") from late
        if (emit := self._output_callback()) is not None:
            await emit(r.stdout, "stdout")
            await emit(r.stderr, "stderr")
        return ExecResult(stdout=r.stdout, stderr=r.stderr + r.start_error, return_code=r.exit_code)

    async def _run(
        self, command: list[str], cwd: str | None, env: dict[str, str] | None, timeout: int | None,
        user: str | int | None,
    ) -> Result:
        """Runs a program as a user; where the service has no --root, the sandbox's own user stands for root."""
        if user in ROOT:
            user = "root" if self._has_root else None
        try:
            return await self.box.run(
                command, cwd=cwd, env=env, timeout=timeout, user=None if user is None else str(user))
        except UnsupportedError:
            if user != "root":
                raise
            self._has_root = False
            return await self._run(command, cwd, env, timeout, None)

    async def _as_root(self, script: str, *args: str) -> None:
        r = await self._run(["sh", "-c", script, *args], "/", None, None, "root")
        if r.exit_code != 0:
            raise RuntimeError(f"{args[-1]}: {(r.stderr + r.start_error).strip()}")

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        source, target = Path(source_path), EnvironmentPaths.logs_dir.joinpath("/", target_path)
        await self._unpack({target.name: source}, str(target.parent))

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._unpack({p.name: p for p in sorted(Path(source_dir).iterdir())}, target_dir)

    async def _unpack(self, names: dict[str, Path], target: str) -> None:
        """Copies files and directories, with modes and links, to a directory inside."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for name, path in names.items():
                tar.add(path, arcname=name)
        archive = self._archive()
        try:
            await self.box.write(archive, packed.getvalue())
            await self._as_root('mkdir -p "$1" && tar -xzof "$0" -C "$1"', archive, target)
        finally:
            await self._as_root('rm -f "$0"', archive)

    def _archive(self) -> str:
        return f"/tmp/.harbor-{os.urandom(8).hex()}.tar.gz"

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        target = Path(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(await self.box.read(source_path))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        archive = self._archive()
        try:
            await self._as_root('tar -czf "$0" -C "$1" . && chmod 644 "$0"', archive, source_dir)
            packed = await self.box.read(archive)
        finally:
            await self._as_root('rm -f "$0"', archive)
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
            tar.extractall(target_dir, filter=transfer_tar_filter)

    @override
    async def attach(self) -> None:
        os.execvp(self.options.program, [self.options.program, "exec", "-it", self.box.id, "--", "sh"])
