"""The unit that runs a real SGLang on a CPU with a small real model."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent
ENGINE = CHECKOUT / ".engine"
PYTHON = ENGINE / "venv/bin/python"
MODEL = ENGINE / "model/smollm2"
NOISY_MODEL = ENGINE / "model/smollm2-noisy"
UNIT = "sglang.service"
MAX_RUNNING = 8
FLAGS = (
    "--model-path {model} --device cpu --host 127.0.0.1 --port {port} --enable-metrics --sleep-on-idle"
    " --max-total-tokens 8192 --max-running-requests {max_running}"
)


def argv(port: int) -> list[str]:
    """The command line that is adopted."""
    flags = FLAGS.format(model=MODEL, port=port, max_running=MAX_RUNNING)
    return [str(PYTHON), "-m", "sglang.launch_server", *flags.split()]


def unit_file(port: int) -> str:
    """The unit's text, as an administrator would write it."""
    return f"""[Unit]
Description=SGLang on a CPU
After=network.target

[Service]
User=sglang
WorkingDirectory=/home/sglang
Environment=SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1
ExecStart={" ".join(argv(port))}
Restart=on-failure
RestartSec=1
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""
