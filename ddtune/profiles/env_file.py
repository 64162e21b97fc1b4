"""The values of an ``EnvironmentFile=``, as systemd reads one."""

from __future__ import annotations

from dataclasses import dataclass, field

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


def environment_file(text: str) -> dict[str, str]:
    """Names and values, the last of a name given twice. Quotes count at the start of a value and after one another."""
    reader = _Reader()
    for char in text if text.endswith("\n") else text + "\n":
        reader.feed(char)
    return reader.found
