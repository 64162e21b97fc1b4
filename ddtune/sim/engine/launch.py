"""From a command line to resolved arguments, as the real server resolves them at its start."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddtune.sim.engine import flags
from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.settings import Settings

ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO", "FROZEN_KV_MTP")
CONTEXT_LEN = 262144
TOKEN_CAPACITY = 3_480_576


class ArgumentsError(ValueError):
    """The arguments parse and cannot be served; the text is the real server's ValueError."""


@dataclass(frozen=True)
class Launch:
    """What one start runs: ``args`` as ``/server_info`` shows them, the axes, the notes that resolving logged."""

    argv: tuple[str, ...]
    args: dict[str, Any]
    axes: Axes
    notes: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command line as one shell line."""
        return shlex.join(self.argv)

    @property
    def model_name(self) -> str:
        """The name that the API and the metrics give the model."""
        return str(self.args["served_model_name"])


def launch(argv: Sequence[str], settings: Settings) -> Launch:
    """Parses and resolves ``argv``. Exits 2 on bad usage; raises ArgumentsError on what cannot be served."""
    parser = flags.parser(settings.build)
    given = vars(parser.parse_args(list(argv)))
    for phase in ("decode", "prefill"):
        backend = given[f"cuda_graph_backend_{phase}"]
        if backend == "tc_piecewise":
            parser.error(f"argument --cuda-graph-backend-{phase}: tc_piecewise was removed; use 'full' or 'breakable'")
        if backend not in (None, "full", "breakable", "disabled"):
            parser.error(f"argument --cuda-graph-backend-{phase}: invalid choice: '{backend}'")
    args = {name: given.get(name, value) for name, value in flags.defaults().items()}
    args["speculative_ddtree_budget"] = given.get("speculative_ddtree_budget")
    notes: list[str] = []
    _defaults(args)
    _speculation(args, settings, notes)
    _graphs(args, notes)
    return Launch(tuple(argv), args, _axes(args, settings), tuple(notes))


def _defaults(args: dict[str, Any]) -> None:
    args["tokenizer_path"] = args["tokenizer_path"] or args["model_path"]
    args["served_model_name"] = args["served_model_name"] or args["model_path"]
    args["device"] = args["device"] or "cuda"
    args["attention_backend"] = args["attention_backend"] or "trtllm_mla"
    args["mem_fraction_static"] = args["mem_fraction_static"] or 0.83
    args["page_size"] = args["page_size"] or 1
    args["random_seed"] = args["random_seed"] if args["random_seed"] is not None else 575791903


def _speculation(args: dict[str, Any], settings: Settings, notes: list[str]) -> None:
    algorithm = args["speculative_algorithm"] = (args["speculative_algorithm"] or "").upper() or None
    if algorithm is None:
        args["max_running_requests"] = args["max_running_requests"] or 2048
        return
    known = ALGORITHMS + (("DDTREE",) if settings.build == "ddtree" else ())
    if algorithm not in known:
        raise ArgumentsError(f"Unknown speculative algorithm name: {algorithm}")
    if algorithm in ("DDTREE", "DFLASH") and not args["speculative_draft_model_path"]:
        raise ArgumentsError(f"{algorithm} speculative decoding requires --speculative-draft-model-path.")
    if algorithm == "DDTREE":
        if args["page_size"] != 1:
            raise ArgumentsError(f"DDTREE only supports page_size == 1, got page_size={args['page_size']}.")
        if args["speculative_use_rejection_sampling"]:
            raise ArgumentsError("DDTREE does not support --speculative-use-rejection-sampling.")
        given = args["speculative_ddtree_budget"]
        budget = args["speculative_ddtree_budget"] = 16 if given is None else given
        if budget < 1:
            raise ArgumentsError(f"--speculative-ddtree-budget must be positive, got {budget}.")
        args["speculative_num_draft_tokens"] = budget + 1
        if not args["disable_overlap_schedule"]:
            notes.append("Overlap scheduler is disabled because of using DDTREE speculative decoding.")
        args["disable_overlap_schedule"] = True
    else:
        block = args["speculative_dflash_block_size"]
        args["speculative_num_draft_tokens"] = args["speculative_num_draft_tokens"] or block or 16
    if algorithm in ("DDTREE", "DFLASH"):
        args["speculative_num_steps"] = args["speculative_eagle_topk"] = 1
    if not args["max_running_requests"]:
        args["max_running_requests"] = 48
        notes.append(
            "Max running requests is reset to 48 for speculative decoding. "
            "You can override this by explicitly setting --max-running-requests."
        )
    notes.append(f"The mixed chunked prefill are disabled because of using {algorithm.lower()} speculative decoding.")


def _graphs(args: dict[str, Any], notes: list[str]) -> None:
    """Fills ``cuda_graph_config``: the JSON wins over the flags, --disable-cuda-graph turns both phases off."""
    given = args["cuda_graph_config"] if isinstance(args["cuda_graph_config"], str) else None
    try:
        wins = json.loads(given) if given else {}
    except ValueError as error:
        raise ArgumentsError(f"--cuda-graph-config is not valid JSON: {error}") from None
    config = flags.defaults()["cuda_graph_config"]
    for phase in ("decode", "prefill"):
        backend = args[f"cuda_graph_backend_{phase}"] or ("full" if phase == "decode" else "breakable")
        if args["disable_cuda_graph"] or args[f"disable_{phase}_cuda_graph"]:
            backend = "disabled"
        config[phase]["backend"] = backend
        largest = args[f"cuda_graph_max_bs_{phase}"]
        sizes = args[f"cuda_graph_bs_{phase}"]
        if phase == "decode":
            largest = largest or min(int(args["max_running_requests"]), 512)
            sizes = sizes or batch_sizes(largest, args["speculative_algorithm"] is not None)
        if sizes:
            config[phase]["bs"], config[phase]["max_bs"] = sizes, max(sizes)
        elif largest:
            config[phase]["bs"] = [size for size in config[phase]["bs"] if size <= largest] or [largest]
            config[phase]["max_bs"] = largest
        config[phase].update(wins.get(phase, {}))
    args["cuda_graph_config"] = config
    if args["disable_cuda_graph"]:
        notes.append(
            "The command line argument '--disable-cuda-graph' is deprecated and will be removed in a future version. "
            "Use --cuda-graph-backend-decode=disabled and --cuda-graph-backend-prefill=disabled instead."
        )


def batch_sizes(largest: int, speculative: bool) -> list[int]:
    """The batch sizes that decode graphs are captured for, up to ``largest`` and with it."""
    if speculative:
        steps = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, 513, 16)]
    else:
        steps = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 513, 16)]
    return sorted({*(size for size in steps if size <= largest), largest})


def _axes(args: dict[str, Any], settings: Settings) -> Axes:
    algorithm = args["speculative_algorithm"]
    decode = args["cuda_graph_config"]["decode"]
    graphs = decode["backend"] != "disabled"
    # SGLang writes the variable itself unless the unit sets it and neither flag is given.
    flag = bool(args["enable_nccl_nvls"] or args["enable_symm_mem"])
    return Axes(
        algorithm=algorithm,
        budget=int(args["speculative_num_draft_tokens"]) - 1 if algorithm else 0,
        topk=settings.max_topk if algorithm == "DDTREE" else 1,
        draft_window=args["speculative_draft_window_size"],
        graphs=graphs,
        prefill_graphs=args["cuda_graph_config"]["prefill"]["backend"] != "disabled",
        graph_max_bs=int(decode["max_bs"]) if graphs else 0,
        nvls=flag or settings.nvls_env == "1",
        max_running=int(args["max_running_requests"]),
        tp_size=int(args["tp_size"]),
    )
