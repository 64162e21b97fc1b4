"""Starts the engine once as its owner, so that everything that it imports lies compiled beside its source.

usage: first_start.py MODEL      (with the engine's Python)
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_S = 300
UP = "The server is fired up and ready to roll!"


def main(model: str) -> int:
    """0 when it served; its last words on standard error when it did not."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", model, "--device", "cpu", "--port", str(port)]
    offline = {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with tempfile.TemporaryFile("w+") as log:
        engine = subprocess.Popen(
            [*argv, "--max-total-tokens", "8192"], env=os.environ | offline, stdout=log, stderr=log
        )
        end = time.monotonic() + LIMIT_S
        said = ""
        while UP not in said and engine.poll() is None and time.monotonic() < end:
            time.sleep(0.5)
            log.seek(0)
            said = log.read()
        engine.terminate()
        engine.wait(60)
    if UP not in said:
        print(said[-2000:], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
