"""Runs the engine's own tree-mask attention on small buffers, in eager and replayed from a CUDA graph.

Run by the service's own Python with this file as the program (``-c``), in the service's working folder and environment,
beside the service. Standard input is ``{"budgets", "batches", "model", "attention_ranks", "least_free_mib", "seed"}``:
drafted nodes of a tree (a row for the root comes to them), trees at once, the model's folder or name, how many ranks
share its attention heads, and the free memory below which nothing is done.

Output is a line of JSON each: ``place`` (where the kernel is), ``gpu``, ``shapes``, and for each case ``begin`` and
``case``. All numbers of a case are facts; what they mean is judged elsewhere. A case ends with ``failure`` where the
kernel raised, and the program with it: its CUDA context is lost then. ``eager`` and ``replays`` are relative L2 errors
to float32 attention in torch, null where not finite; ``equal`` says that each replay was bit-equal to an eager run on
the same buffers. Two controls must be caught: ``stale`` is the error with the mask left as it was, ``nan`` says that a
NaN in a used slot came out. Without a GPU there are no replays, and the kernel runs in Triton's interpreter in float32.

A build may bring a canary for its own attention, ``sglang.ddtune_canary`` with ``lines(request)``: it is used instead.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

PLACES = (
    "sglang.kernels.ops.attention.extend_attention",
    "sglang.srt.layers.attention.triton_ops.extend_attention",
)
OWN = "sglang.ddtune_canary"
DRIVER = "/dev/nvidiactl"
REPLAYS = 4
PREFIX_MIN, PREFIX_MAX = 200, 1000
CPU_PREFIX_MIN, CPU_PREFIX_MAX = 20, 60
MIB = 1 << 20
TENSORS_MIB = 1024


@dataclass(frozen=True)
class Heads:
    """Attention heads of one rank; with latent attention (MLA) the values are the first part of the keys."""

    name: str
    query: int
    kv: int
    qk_width: int
    v_width: int

    @property
    def latent(self) -> bool:
        return self.qk_width > self.v_width


STANDARD = (Heads("mla", 8, 1, 576, 512), Heads("gqa", 16, 2, 128, 128))
"""Kimi K2's latent attention and a common grouped one, an eighth of each: for a model that cannot be read."""


def heads_of(config: Mapping[str, Any], ranks: int) -> Heads | None:
    """One rank's heads by a model's config.json; None where it does not say them."""
    config = config.get("text_config") or config
    query = config.get("num_attention_heads")
    if not isinstance(query, int) or query < 1:
        return None
    own = max(1, query // ranks)
    latent, rope = config.get("kv_lora_rank"), config.get("qk_rope_head_dim")
    if isinstance(latent, int) and isinstance(rope, int):
        return Heads("mla", own, 1, latent + rope, latent)
    width = config.get("head_dim") or (config.get("hidden_size") or 0) // query
    kv = config.get("num_key_value_heads") or query
    return Heads("gqa", own, max(1, kv // ranks), width, width) if width else None


def model_config(model: str) -> dict[str, Any] | None:
    """A model's config.json from its folder, or from the hub's cache; nothing is fetched."""
    path = os.path.join(model, "config.json")
    if not os.path.isdir(model):
        with contextlib.suppress(Exception):
            path = str(importlib.import_module("huggingface_hub").try_to_load_from_cache(model, "config.json"))
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def choose_gpu() -> dict[str, Any] | None:
    """The service's GPU with most free memory, by NVML and so at no cost in memory; None where NVML is not there."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        found = [_gpu(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]
    except Exception:  # noqa: BLE001 (pynvml is not ours and raises what it likes)
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        words = [word.strip() for word in visible.split(",")]
        found = [gpu for index, gpu in enumerate(found) if str(index) in words or gpu["uuid"] in words]
    return max(found, key=lambda gpu: int(gpu["free_mib"]), default=None)


def _gpu(nvml: Any, handle: Any) -> dict[str, Any]:
    memory, uuid, name = (
        nvml.nvmlDeviceGetMemoryInfo(handle),
        nvml.nvmlDeviceGetUUID(handle),
        nvml.nvmlDeviceGetName(handle),
    )
    texts = [one.decode() if isinstance(one, bytes) else str(one) for one in (uuid, name)]
    return {"uuid": texts[0], "name": texts[1], "free_mib": memory.free // MIB, "total_mib": memory.total // MIB}


def _torchs_gpu(torch: Any) -> dict[str, Any]:
    """The first GPU by torch, where NVML is not there: asking takes a CUDA context, half a gigabyte."""
    free, total = torch.cuda.mem_get_info()
    found = torch.cuda.get_device_properties(0)
    uuid = str(getattr(found, "uuid", "")) or None
    return {"uuid": uuid, "name": found.name, "free_mib": free // MIB, "total_mib": total // MIB}


def find_kernel() -> tuple[str, Callable[..., None]] | None:
    """The engine's extend attention and where it was found."""
    for place in PLACES:
        try:
            return place, importlib.import_module(place).extend_attention_fwd
        except (ImportError, AttributeError):
            continue
    return None


class Case:
    """Buffers at fixed addresses, as a CUDA graph needs them; ``refill`` puts another batch into them."""

    def __init__(
        self, kernel: Callable[..., None], heads: Heads, budget: int, batch: int, device: str, seed: int
    ) -> None:
        import torch

        self.torch: Any = torch
        on_gpu = device == "cuda"
        self.device, self.heads, self.nodes, self.batch, self.kernel = device, heads, budget + 1, batch, kernel
        self.least, self.most = (PREFIX_MIN, PREFIX_MAX) if on_gpu else (CPU_PREFIX_MIN, CPU_PREFIX_MAX)
        self.random = torch.Generator().manual_seed(seed)
        kind = torch.bfloat16 if on_gpu else torch.float32

        def buffer(rows: int, count: int, width: int) -> Any:
            return torch.empty(rows, count, width, dtype=kind, device=device)

        def numbers(size: int, dtype: Any) -> Any:
            return torch.zeros(size, dtype=dtype, device=device)

        queries, self.slots = batch * self.nodes, batch * self.most + 64
        self.q, self.out = buffer(queries, heads.query, heads.qk_width), buffer(queries, heads.query, heads.v_width)
        self.k, self.v = buffer(queries, heads.kv, heads.qk_width), buffer(queries, heads.kv, heads.v_width)
        self.k_cache = buffer(self.slots, heads.kv, heads.qk_width)
        self.v_cache = self.k_cache[..., : heads.v_width] if heads.latent else torch.empty_like(self.k_cache)
        self.q_start = torch.arange(batch + 1, dtype=torch.int32, device=device) * self.nodes
        self.kv_start, self.kv_slots = numbers(batch + 1, torch.int32), numbers(self.slots, torch.int64)
        self.mask = numbers(queries * (self.most + self.nodes), torch.bool)
        self.mask_start = numbers(batch + 1, torch.int64)
        self.lengths = [self.least] * batch
        self.visible: list[Any] = []
        self.used: Any = None
        parameters = inspect.signature(kernel).parameters
        self.scales = (1.0, 1.0) if "k_scale" in parameters else ()

    def tree(self) -> Any:
        """A mask of ``(nodes, nodes)``: each sees itself and its ancestors, and its parent is one of nine before it."""
        mask = self.torch.eye(self.nodes, dtype=self.torch.bool)
        for node in range(1, self.nodes):
            first = max(0, node - 9)
            parent = int(self.torch.randint(first, node, (), generator=self.random))
            mask[node] |= mask[parent]
        return mask

    def opposite(self, tree: Any) -> Any:
        """A mask in which each node sees itself and just the earlier ones that it does not see in ``tree``."""
        return (~tree).tril(-1) | self.torch.eye(self.nodes, dtype=self.torch.bool)

    def refill(self, *, stale_mask: bool = False) -> None:
        """Other contents, slots, trees and lengths; with ``stale_mask`` lengths and the kernel's mask stay."""
        torch = self.torch
        for tensor in (self.q, self.k, self.v, self.k_cache, self.v_cache):
            tensor.normal_()
        if self.heads.latent:
            self.v.copy_(self.k[..., : self.heads.v_width])
        if stale_mask:
            # Small trees may differ by one node or by none, and a mask left as it was would be nearly right.
            trees = [self.opposite(visible[:, -self.nodes :]) for visible in self.visible]
        else:
            self.lengths = torch.randint(self.least, self.most + 1, (self.batch,), generator=self.random).tolist()
            trees = [self.tree() for _ in self.lengths]
        total = sum(self.lengths)
        self.used = torch.randperm(self.slots, generator=self.random)[:total].to(self.device)
        self.kv_slots[:total] = self.used
        lengths = torch.tensor(self.lengths)
        self.kv_start[1:] = lengths.cumsum(0).to(self.kv_start)
        self.mask_start[1:] = (self.nodes * (lengths + self.nodes)).cumsum(0).to(self.mask_start)
        self.visible = [
            torch.cat([torch.ones(self.nodes, length, dtype=torch.bool), tree], 1)
            for length, tree in zip(self.lengths, trees, strict=True)
        ]
        if not stale_mask:
            flat = torch.cat([visible.flatten() for visible in self.visible])
            self.mask[: len(flat)] = flat.to(self.device)
        self.out.fill_(math.nan)

    def run(self) -> None:
        """The engine's kernel on the present buffers."""
        caches = (self.k_cache, self.v_cache, self.q_start, self.kv_start, self.kv_slots)
        mask = (self.mask, True, self.mask_start, self.nodes)
        self.kernel(self.q, self.k, self.v, self.out, *caches, *mask, *self.scales, self.heads.qk_width**-0.5)

    def error(self) -> float | None:
        """Relative L2 error of the output to attention in float32; None where it is not finite."""
        torch = self.torch
        if not torch.isfinite(self.out).all():
            return None
        group, expected = self.heads.query // self.heads.kv, []
        for index, slots in enumerate(self.used.split(self.lengths)):
            rows = slice(index * self.nodes, (index + 1) * self.nodes)
            keys = torch.cat([self.k_cache[slots], self.k[rows]]).float().repeat_interleave(group, 1)
            values = torch.cat([self.v_cache[slots], self.v[rows]]).float().repeat_interleave(group, 1)
            scores = torch.einsum("qhd,khd->hqk", self.q[rows].float(), keys) * self.heads.qk_width**-0.5
            scores.masked_fill_(~self.visible[index].to(self.device), -math.inf)
            expected.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), values))
        reference = torch.cat(expected)
        return float((self.out.float() - reference).norm() / reference.norm())


def check(case: Case) -> dict[str, Any]:
    """The facts of one case."""
    case.refill()
    case.run()
    eager = case.error()
    replays: list[float | None] = []
    equal: bool | None = None
    again = case.run
    if case.device == "cuda":
        graph = case.torch.cuda.CUDAGraph()
        with case.torch.cuda.graph(graph):
            case.run()
        again, equal = graph.replay, True
        for _ in range(REPLAYS):
            case.refill()
            again()
            replays.append(case.error())
            output = case.out.clone()
            case.out.fill_(math.nan)
            case.run()
            equal = equal and bool(case.torch.equal(output, case.out))
    case.refill(stale_mask=True)
    again()
    stale = case.error()
    case.refill()
    case.k_cache[case.used[0]] = math.nan
    again()
    return {"eager": eager, "replays": replays, "equal": equal, "stale": stale, "nan": case.error() is None}


def lines(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every line of the output. Ends early where there is too little memory, no kernel, or a case that raised."""
    gpu = request["gpu"]
    if gpu is not None:
        yield {"t": "gpu", **gpu}
        if gpu["free_mib"] < request["least_free_mib"]:
            return
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if gpu is None and device == "cuda":
        gpu = _torchs_gpu(torch)
        yield {"t": "gpu", **gpu}
        if gpu["free_mib"] < request["least_free_mib"]:
            return
    found = find_kernel()
    yield {"t": "place", "kernel": found and found[0], "device": device, "torch": torch.__version__}
    if found is None:
        return
    if device == "cuda" and gpu is not None:
        # What this process may take is small and fixed: the service's memory is never bid for.
        torch.cuda.set_per_process_memory_fraction(min(1.0, TENSORS_MIB / gpu["total_mib"]))
    own = heads_of(model_config(request["model"]) or {}, request["attention_ranks"])
    shapes = (own,) if own else STANDARD
    yield {"t": "shapes", "source": "model" if own else "standard", "shapes": [asdict(one) for one in shapes]}
    for budget in request["budgets"]:
        for heads in shapes:
            for batch in request["batches"]:
                at = {"budget": budget, "batch": batch, "shape": heads.name}
                yield {"t": "begin", **at}
                began = time.perf_counter()
                failure = None
                facts: dict[str, Any] = {}
                try:
                    facts = check(Case(found[1], heads, budget, batch, device, request["seed"]))
                except Exception as error:  # noqa: BLE001 (whatever CUDA, Triton and the kernel raise)
                    failure = f"{type(error).__name__}: {error}"[:500]
                yield {"t": "case", **at, **facts, "failure": failure, "seconds": round(time.perf_counter() - began, 2)}
                if failure is not None:
                    return
    yield {"t": "end"}


def main() -> None:
    """Answers the request on standard input."""
    request = json.load(sys.stdin)
    # The engine prints as it likes; the answer has a descriptor of its own.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gpu = choose_gpu()
    # Before the engine is imported, which reads both.
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu["uuid"]
    elif not os.path.exists(DRIVER):
        os.environ["TRITON_INTERPRET"] = "1"
    source: Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]] = lines
    with contextlib.suppress(ImportError):
        source = importlib.import_module(OWN).lines
    for line in source({**request, "gpu": gpu}):
        out.write(json.dumps(line) + "\n")
        out.flush()
    # Threads of the engine's libraries need not be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
