"""Declares the two C++ operators without which torchvision's Python part does not import beside a CPU torch."""

from __future__ import annotations

import torch

library = torch.library.Library("torchvision", "FRAGMENT")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
