"""Takes all of a GPU's free memory but ``LEFT_MIB`` when told to, and gives it back at end of input. Run by itself."""

from __future__ import annotations

import sys

LEFT_MIB = 700


def main() -> None:
    import torch

    torch.zeros(1, device="cuda")
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(max(1, free - (LEFT_MIB << 20)), dtype=torch.uint8, device="cuda")
    print(f"took {held.numel() >> 20} MiB", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
