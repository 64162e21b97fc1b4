"""A stand-in for the ``sglang`` package, found by PYTHONPATH; it starts ddtune's simulated engine."""

__version__ = "0.5.23"
