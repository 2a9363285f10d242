"""A client of the HTTP API of wolffia serve. `Client` is synchronous, `AsyncClient` asynchronous."""

from ._async import AsyncClient, AsyncSandbox
from ._errors import (
    ConflictError, DeniedError, ExistsError, InvalidError, NotFoundError, TimedOutError, TooOftenError,
    UnavailableError, UnsupportedError, WolffiaError,
)
from ._sync import Client, Sandbox
from ._types import Info, Job, JobOutput, Output, Owner, Part, Result, Settings, Snapshot, StreamPart

__all__ = [
    "AsyncClient", "AsyncSandbox", "Client", "ConflictError", "DeniedError", "ExistsError", "Info", "InvalidError",
    "Job", "JobOutput", "NotFoundError", "Output", "Owner", "Part", "Result", "Sandbox", "Settings", "Snapshot", "StreamPart",
    "TimedOutError", "TooOftenError", "UnavailableError", "UnsupportedError", "WolffiaError",
]
