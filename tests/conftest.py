"""One thread and no display, for every test and for every process that a test starts."""

import multiprocessing
import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def forked():
    """Starts a function in a process of its own that has everything imported already: one that can be killed or harmed,
    without the seconds that a new interpreter takes. What is left of them ends with the test.
    """
    begun = []

    def start(function, *args):
        begun.append(multiprocessing.get_context("fork").Process(target=function, args=args))
        begun[-1].start()
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.join()
