"""Sandboxes of wolffia for deepagents."""

from __future__ import annotations

from deepagents.backends.protocol import (
    FILE_NOT_FOUND, INVALID_PATH, IS_DIRECTORY, PERMISSION_DENIED, ExecuteResponse, FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from wolffia import DeniedError, InvalidError, NotFoundError, Sandbox, TimedOutError, WolffiaError

__all__ = ["WolffiaSandbox"]


class WolffiaSandbox(BaseSandbox):
    """A backend of deepagents in a sandbox of wolffia. Who made the sandbox destroys it.

    timeout is how long a command may take that says nothing else, in seconds; 0: as long as it wants.
    max_output is how many bytes of output a command may have; the rest is dropped.
    """

    def __init__(self, sandbox: Sandbox, *, timeout: float = 30 * 60, max_output: int = 8 << 20) -> None:
        self.sandbox, self.timeout, self.max_output = sandbox, timeout, max_output

    @property
    def id(self) -> str:
        return self.sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        limit = self.timeout if timeout is None else timeout
        try:
            # The command has one stream, as a terminal has: its lines are in their order.
            r = self.sandbox.run(f"exec 2>&1\n{command}", timeout=limit or None, max_bytes=self.max_output)
        except TimedOutError as late:
            r = late.output
            return ExecuteResponse(output=f"{r.stdout}\n{late.message}", exit_code=124, truncated=r.truncated)
        return ExecuteResponse(output=r.stdout + r.start_error, exit_code=r.exit_code, truncated=r.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def _upload(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return INVALID_PATH
        try:
            self.sandbox.write(path, content)
        except WolffiaError as e:
            return self._error(path, e)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path=path, content=self.sandbox.read(path))
        except WolffiaError as e:
            return FileDownloadResponse(path=path, error=self._error(path, e))

    def _error(self, path: str, e: WolffiaError) -> str:
        """Returns the code of deepagents for an error, or the message of one that it has no code for."""
        if isinstance(e, DeniedError):
            return PERMISSION_DENIED
        if isinstance(e, NotFoundError) and "no such file" in e.message:
            return FILE_NOT_FOUND
        if isinstance(e, InvalidError):
            return IS_DIRECTORY if self.sandbox.run(["test", "-d", path]).exit_code == 0 else INVALID_PATH
        return e.message
