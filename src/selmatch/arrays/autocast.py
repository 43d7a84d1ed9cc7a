"""PyTorch's autocast, switched off: losses make single precision of half by themselves."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def has_autocast(device: str) -> bool:
    """Whether a kind of device has autocast; not every PyTorch can trace the question, but what is compiled for has."""
    return torch.compiler.is_compiling() or torch.amp.is_autocast_available(device)


def full_precision(device: str) -> Any:
    """No autocast inside."""
    return torch.autocast(device, enabled=False) if has_autocast(device) else contextlib.nullcontext()
