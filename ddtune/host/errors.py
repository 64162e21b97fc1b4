"""What can go wrong between the operator and a host, each as one sentence for the operator."""

from __future__ import annotations

from typing import Any


class Unreachable(Exception):  # noqa: N818 (it names the state of the host)
    """The host cannot be reached, logged in to or heard any more.

    ``cause`` is ``refused``, ``timeout``, ``name_not_found``, ``no_route``, ``unknown_host_key``, ``changed_host_key``,
    ``no_host_keys``, ``auth_failed``, ``unsupported_option``, ``bad_name``, ``protocol``, ``command_timeout``,
    ``no_python`` or ``lost``.
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message


class HelperRefused(Exception):  # noqa: N818 (a refusal is an answer)
    """The helper on the host answered ``ok: false``. ``cause`` is one of the classes in docs/json.md."""

    def __init__(self, cause: str, message: str, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.detail = detail or {}


class HelperFailed(Exception):  # noqa: N818 (reads as its pair above)
    """No usable answer came from the helper.

    ``cause`` is ``not_adopted`` (it is not installed), ``read_only`` (it may not be run, or speaks another protocol)
    or ``unknown``.
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
