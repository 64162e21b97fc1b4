"""Stands for SGLang's CUDA kernels, which a Llama model on a CPU imports and never calls: a call raises."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "0.4.10"


class _Absent:
    """A kernel that is not there."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._name}.{name}")

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"the CUDA kernel {self._name} was called on a CPU")

    def __hash__(self):
        return hash(self._name)

    def __eq__(self, other):
        return isinstance(other, _Absent) and other._name == self._name


class _AbsentModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("sgl_kernel."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = _AbsentModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        """Nothing to run."""


class ScalarType:
    """Named in annotations."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Absent(f"sgl_kernel.{name}")


sys.meta_path.append(_Finder())
