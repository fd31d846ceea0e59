"""Lets every Python process whose path has this folder import a torchvision that lacks its compiled operators.

PyPI's torchvision needs a torch with CUDA for them. The processors of images that tests run use none.
"""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

_libraries: list[Any] = []  # an operator ends with its library


class _Operators(MetaPathFinder):
    """Declares the operators that torchvision looks for, before it is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "torchvision" and not _libraries:
            import torch

            _libraries.append(torch.library.Library("torchvision", "DEF"))
            for operator in ("nms", "qnms"):
                _libraries[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


sys.meta_path.insert(0, _Operators())
