"""The state of torch while a run computes: threads, matrix precision, generators."""

from __future__ import annotations

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
        self.rng.__enter__()
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")

    def __exit__(self, *error: Any) -> None:
        torch.set_num_threads(self.before[0])
        torch.set_float32_matmul_precision(self.before[1])
        self.rng.__exit__(*error)
