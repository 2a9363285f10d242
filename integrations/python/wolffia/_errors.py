"""Errors, by the code that the service answers with."""

from __future__ import annotations

from ._types import JSON, Result


class WolffiaError(Exception):
    """An error of the service. Its text is the service's message."""

    def __init__(self, message: str, code: str = "", status: int = 0, request_id: str = "", result: JSON | None = None):
        super().__init__(message)
        self.message, self.code, self.status, self.request_id = message, code, status, request_id
        self.result = result
        """What was done before the error, as the service sent it; None: nothing."""


class InvalidError(WolffiaError):
    """The request is not valid."""


class NotFoundError(WolffiaError):
    """The sandbox, file, job or snapshot does not exist."""


class DeniedError(WolffiaError):
    """The key, the rules or a quota do not allow it."""


class ConflictError(WolffiaError):
    """The state of the sandbox does not allow it."""


class ExistsError(WolffiaError):
    """Another one has this name."""


class UnavailableError(WolffiaError):
    """Not now: the service stops, cannot be reached, or lacks a resource."""


class UnsupportedError(WolffiaError):
    """This service, or its backend, cannot do it."""


class TooOftenError(WolffiaError):
    """A quota of requests is used up."""


class TimedOutError(WolffiaError):
    """The command's timeout is over, and the service has stopped it."""

    @property
    def output(self) -> Result:
        """The result of the command, with its output until then."""
        return Result.of(self.result or {})


CODES: dict[str, type[WolffiaError]] = {
    "invalid": InvalidError, "notFound": NotFoundError, "denied": DeniedError, "conflict": ConflictError,
    "exists": ExistsError, "unavailable": UnavailableError, "stopping": UnavailableError,
    "unsupported": UnsupportedError, "timedOut": TimedOutError, "tooOften": TooOftenError,
}


def error_of(status: int, reply: JSON) -> WolffiaError:
    """Returns the error of a reply. The gate's own replies have code and message at the top."""
    e = reply.get("error") or reply
    code = str(e.get("code", ""))
    message = str(e.get("message") or f"the service answers with status {status}")
    result = reply.get("result")
    return CODES.get(code, WolffiaError)(
        message, code, status, str(e.get("requestId", "")), result if isinstance(result, dict) else None)
