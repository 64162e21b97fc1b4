"""The unit that runs the simulated engine in the place of SGLang."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent
UNIT = "sglang-k26.service"
BASE_FLAGS = (
    "--model-path /models/Kimi-K2.6 --trust-remote-code --tp-size 8 --host 127.0.0.1 --port {port} --enable-metrics"
    " --attention-backend triton --page-size 1 --speculative-algorithm DDTREE"
    " --speculative-draft-model-path /models/Kimi-K2.6-DFlash --speculative-ddtree-budget 8"
    " --speculative-draft-window-size 2048 --enable-nccl-nvls --max-running-requests 128 --mem-fraction-static 0.85"
)
ENVIRONMENT = {
    "SGLANG_DDTREE_MAX_TOPK": "4",
    "DDTUNE_SIM_SPEED": "100",
    "DDTUNE_SIM_TRAFFIC": "2",
    "DDTUNE_SIM_STATE": "/run/sglang/gpus.json",
    "PYTHONPATH": f"{CHECKOUT / 'ddtune/sim/standin'}:{CHECKOUT}",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def unit_file(port: int, flags: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> str:
    """The unit's text: ``flags`` go behind the base's own, ``environment`` over it."""
    argv = [sys.executable, "-m", "sglang.launch_server", *BASE_FLAGS.format(port=port).split(), *flags]
    variables = ENVIRONMENT | dict(environment or {})
    settings = "\n".join(f'Environment="{key}={value}"' for key, value in variables.items())
    return f"""[Unit]
Description=SGLang (simulated)

[Service]
User=sglang
WorkingDirectory=/home/sglang
RuntimeDirectory=sglang
{settings}
ExecStart={" ".join(argv)}
Restart=always
RestartSec=1
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""
