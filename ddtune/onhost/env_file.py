"""What systemd makes of environment files and of variables on an Exec line, and how it lists a unit's environment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SHOWN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)', re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}

_BLANK = " \t\n\r"
_ESCAPED_IN_DOUBLE = '"\\`$'


@dataclass
class _Reader:
    found: dict[str, str] = field(default_factory=dict)
    state: str = "before key"
    key: str = ""
    value: str = ""
    kept: int = 0

    def feed(self, char: str) -> None:
        getattr(self, f"_{self.state.replace(' ', '_')}")(char)

    def _before_key(self, char: str) -> None:
        if char in "#;":
            self.state = "comment"
        elif char not in _BLANK:
            self.state, self.key = "in key", char

    def _in_key(self, char: str) -> None:
        if char in "\n\r":
            self.state = "before key"
        elif char == "=":
            self.state, self.value, self.kept = "before value", "", 0
        else:
            self.key += char

    def _before_value(self, char: str) -> None:
        if char in "\n\r":
            self.end()
        elif char in "'\"\\":
            self.state = {"'": "in single", '"': "in double", "\\": "value escape"}[char]
        elif char not in _BLANK:
            self.state = "in value"
            self._keep(char)

    def _in_value(self, char: str) -> None:
        if char in "\n\r":
            self.value = self.value[: self.kept]
            self.end()
        elif char == "\\":
            self.state = "value escape"
        elif char in _BLANK:
            self.value += char
        else:
            self._keep(char)

    def _value_escape(self, char: str) -> None:
        self.state = "in value"
        if char not in "\n\r":
            self._keep(char)

    def _in_single(self, char: str) -> None:
        if char == "'":
            self.state = "before value"
        else:
            self._keep(char)

    def _in_double(self, char: str) -> None:
        if char in '"\\':
            self.state = "before value" if char == '"' else "double escape"
        else:
            self._keep(char)

    def _double_escape(self, char: str) -> None:
        self.state = "in double"
        if char in _ESCAPED_IN_DOUBLE:
            self._keep(char)
        elif char != "\n":
            self._keep("\\" + char)

    def _comment(self, char: str) -> None:
        if char in "\n\r":
            self.state = "before key"
        elif char == "\\":
            self.state = "comment escape"

    def _comment_escape(self, _char: str) -> None:
        self.state = "comment"

    def _keep(self, text: str) -> None:
        self.value += text
        self.kept = len(self.value)

    def end(self) -> None:
        self.found[self.key.strip()] = self.value
        self.state = "before key"


def parse(text: str) -> dict[str, str]:
    """Names and values, the last of a name given twice. Quotes count at the start of a value and after one another."""
    reader = _Reader()
    for char in text if text.endswith("\n") else text + "\n":
        reader.feed(char)
    return reader.found


def shown(text: str) -> dict[str, str]:
    """What ``systemctl show -p Environment`` prints."""
    words = (_unescaped(one.group(1)) if one.group(1) is not None else one.group(2) for one in _SHOWN.finditer(text))
    return dict(word.split("=", 1) for word in words if "=" in word)


def split(text: str) -> list[str]:
    """The words that systemd makes of a variable that stands alone: quotes and backslashes go, what they keep stays."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    rest = iter(text)
    for char in rest:
        if char == "\\":
            word = (word or "") + next(rest, "")
        elif quote and char != quote:
            word = (word or "") + char
        elif char in "'\"":
            word, quote = word or "", "" if quote else char
        elif char.isspace():
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + char
    return words if word is None else [*words, word]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _NAMED.get(match.group(1), match.group(1)), text, flags=re.DOTALL)
