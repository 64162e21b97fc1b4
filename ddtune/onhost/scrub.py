"""Text of this host with neither keys nor users' words in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from . import pins, store
from .api import ApiError, read_key
from .paths import UnitPaths
from .redact import HIDDEN, SHORTEST, is_secret, key_values, redact_text, without_words

_REQUEST = re.compile(
    r"(GenerateReqInput\(|(?:Receive|Finish): obj=|(?:Chat)?CompletionRequest\("
    r"|[\"'](?:messages|prompt|input_ids)[\"']\s*:)"
)
LEFT_OUT = "[the rest of this line holds a request and was left out]"


class Scrubber:
    """Takes out of all that it is given the values in ``secrets`` and what engines log of requests; counts both."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {secret for secret in secrets if secret}
        self.too_short = sum(1 for secret in found if len(secret) < SHORTEST)
        self._secrets = sorted((one for one in found if len(one) >= SHORTEST), key=len, reverse=True)
        self.keys = 0
        self.requests = 0

    def line(self, text: str) -> str:
        """A line that an engine has logged, where words of users may stand in any field."""
        if _REQUEST.search(text):
            return self.text(text)
        shown = without_words(text)
        self.requests += shown != text
        return self.text(shown)

    def text(self, text: str) -> str:
        match = _REQUEST.search(text)
        if match:
            self.requests += 1
            text = text[: match.end()] + LEFT_OUT
        for secret in self._secrets:
            self.keys += text.count(secret)
            text = text.replace(secret, HIDDEN)
        shown = redact_text(text)
        self.keys += shown != text
        return shown

    def all(self, value: Any) -> Any:
        """``value`` with every string in it scrubbed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {str(key): self.all(one) for key, one in value.items()}
        return [self.all(one) for one in value] if isinstance(value, (list, tuple)) else value


def secrets_of(argvs: Iterable[Iterable[str]], envs: Iterable[Mapping[str, str]], key: Optional[str]) -> set[str]:
    """The values that must not leave the host: keys on command lines, secret variables, the API key itself."""
    found = {value for argv in argvs for value in key_values(list(argv))}
    found |= {value for env in envs for name, value in env.items() if is_secret(name) and value}
    return found | ({key} if key else set())


def cleaned(paths: UnitPaths, evidence: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Lines of evidence as they may be kept: histories are read by everybody, and copied to other machines."""
    scrubber = Scrubber(secrets_kept(paths))
    return tuple(
        {str(name): scrubber.line(one) if isinstance(one, str) else one for name, one in line.items()}
        for line in evidence
    )


def secrets_kept(paths: UnitPaths, more: Sequence[Mapping[str, Any]] = ()) -> set[str]:
    """The secrets of the adopted service, by its base, its key file and the releases ``more``."""
    found = [store.read_json(paths.base) or {}, *more]
    try:
        key = read_key(pins.pinned(paths, None, None)[1], ())
    except ApiError:
        key = None
    return secrets_of([one.get("argv") or () for one in found], [one.get("env_set") or {} for one in found], key)
