"""The state of torch while a run computes: threads, matrix precision, generators."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from leadline.settings import Settings


class Computing:
    """The run's thread count, matrix precision and generators; put back afterwards as the caller had them."""

    def __init__(self, settings: Settings, device: torch.device):
        self.threads = settings.threads if device.type == "cpu" else None
        self.tf32 = settings.precision == "tf32"
        self.rng = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])

    def __enter__(self) -> None:
        self.before = torch.get_num_threads(), torch.get_float32_matmul_precision()
        self.exact = torch.backends.cudnn.deterministic
        self.rng.__enter__()
        torch.backends.cudnn.deterministic = True  # measured to cost nothing; a resumed run has the same bits
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")

    def __exit__(self, *error: Any) -> None:
        torch.set_num_threads(self.before[0])
        torch.set_float32_matmul_precision(self.before[1])
        torch.backends.cudnn.deterministic = self.exact
        self.rng.__exit__(*error)


def mixed(precision: str, device: torch.device) -> AbstractContextManager:
    """Inside, matrix products and convolutions of a bf16 run are in bf16."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
