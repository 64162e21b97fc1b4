"""The terminal's input as text: bytes that are no text neither end the app nor become keys."""

from __future__ import annotations

import os
import re
import selectors
from codecs import getincrementaldecoder
from contextlib import suppress

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

# After tmux attaches again a terminal may report its mouse in X10's way: button and place as one raw byte each, which
# past column 95 is no UTF-8, and before it any letter.
_X10 = re.compile(rb"\x1b\[M[\x20-\xff]{3}")
_X10_BEGUN = re.compile(rb"\x1b\[(?:M[\x20-\xff]{0,2})?\Z")
_READ = 4096
_WAIT_S = 0.1


class Typed:
    """Takes bytes as they come and gives the text in them."""

    def __init__(self) -> None:
        self._held = b""
        self._decode = getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data: bytes) -> str:
        """The text of ``data``, without mouse reports of the old kind and without what is no UTF-8."""
        data = _X10.sub(b"", self._held + data)
        begun = _X10_BEGUN.search(data)
        data, self._held = (data[: begun.start()], data[begun.start() :]) if begun else (data, b"")
        return self._decode(data).replace("�", "")


class Driver(LinuxDriver):
    """Textual's driver with an input that survives any byte."""

    def run_input_thread(self) -> None:
        """Read keys until the app ends or the terminal is gone."""
        parser, typed = XTermParser(self._debug), Typed()
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            with suppress(OSError):
                while not self.exit_event.is_set():
                    if selector.select(_WAIT_S):
                        data = os.read(self.fileno, _READ)
                        if not data:
                            break
                        # An empty text would be the end of input to the parser.
                        if text := typed.feed(data):
                            for event in parser.feed(text):
                                self.process_message(event)
                    for event in parser.tick():
                        self.process_message(event)
        if not self.exit_event.is_set():
            # Nobody is there any more, and not every hang-up comes as a signal.
            self._loop.call_soon_threadsafe(self._app.exit)
        with suppress(EOFError, ParseError):
            for _ in parser.feed(""):
                pass
