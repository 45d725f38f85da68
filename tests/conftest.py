"""One thread and no display, for every test and for every process that a test starts."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"

import torch

torch.set_num_threads(1)
