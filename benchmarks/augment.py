"""Pictures a second of each augmentation, beside kornia's where it is installed, as ratios.

    python benchmarks/augment.py                        # batches of 128 pictures of 32 x 32, and 32 of 128 x 128
    python benchmarks/augment.py --device cuda          # where a GPU is
    python benchmarks/augment.py --small                # few turns, to see that it runs

Both sides get the same float pictures on the same device and draw anew for each picture and turn. They are taken in
turn, and the shortest of several times counts; on a CPU in seconds of the CPU, since a machine may be busy with other
things. `ratio` is kornia's time over ours: above 1 ours is faster. Kornia's rand_augment draws one list of changes for
a batch, ours one for each picture. kornia is not among requirements.txt: `pip install kornia` beside the rest.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.layers.noise import example_keys
from leadline.regularize import regularizer

Work = Callable[[Tensor], Tensor]
WORDS = (
    *("flip", "turn", "crop(4)", "zoom(0.35)", "affine(10, 0.1, 0.1)", "colour(0.4, 0.4, 0.4)", "gray(0.1)"),
    *("erase(0.5)", "cutmix(1)", "mixup(0.2)", "rand_augment(2, 9)"),
)


def ours(word: str, num: int, device: str) -> Work:
    made = regularizer(word).to(device, torch.float32)
    y, epoch = torch.zeros(num, device=device), iter(range(10**9))

    def work(x: Tensor) -> Tensor:
        batch = Batch(x, y, keys=example_keys(0, next(epoch), torch.arange(num, device=device)))
        batch = made.rows(batch)
        return made.inputs(batch.x, batch)

    return work


def kornia(word: str, size: int) -> Work | None:
    import kornia.augmentation as K
    from kornia.augmentation.auto import RandAugment

    labels = torch.zeros(1, dtype=torch.long)
    name = word.partition("(")[0]
    if name in ("cutmix", "mixup"):
        mix = (
            K.RandomCutMixV2(p=1.0, data_keys=["input", "class"])
            if name == "cutmix"
            else K.RandomMixUpV2(p=1.0, data_keys=["input", "class"])
        )
        return lambda x: mix(x, labels.expand(len(x)).to(x.device))[0]
    return {
        "flip": lambda: K.RandomHorizontalFlip(p=0.5),
        "crop": lambda: K.RandomCrop((size, size), padding=4),
        "zoom": lambda: K.RandomResizedCrop((size, size), scale=(0.35, 1.0)),
        "affine": lambda: K.RandomAffine(10, (0.1, 0.1), (0.9, 1.1), p=1.0),
        "colour": lambda: K.ColorJitter(0.4, 0.4, 0.4, 0.0, p=1.0),
        "gray": lambda: K.RandomGrayscale(p=0.1),
        "erase": lambda: K.RandomErasing(p=0.5),
        "rand_augment": lambda: RandAugment(n=2, m=9),
    }.get(name, lambda: None)()


def seconds(work: Work, x: Tensor, calls: int) -> float:
    clock = time.perf_counter if x.is_cuda else time.process_time
    start = clock()
    for _ in range(calls):
        work(x)
    if x.is_cuda:
        torch.cuda.synchronize()
    return (clock() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few turns")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore")
    peer = importlib.util.find_spec("kornia") is not None
    turns, calls = (2, 2) if options.small else (5, 10)
    print(f"{'':24}{'pictures':>18}{'ours/s':>12}{'kornia/s':>12}{'ratio':>8}")
    for num, size in ((128, 32), (32, 128)):
        x = torch.rand(num, 3, size, size, device=options.device)
        for word in WORDS:
            sides = [ours(word, num, options.device), kornia(word, size) if peer else None]
            times = [float("inf"), float("inf")]
            for turn in range(turns + 1):
                for k, side in enumerate(sides):
                    if side is not None:
                        took = seconds(side, x, calls)
                        times[k] = min(times[k], took if turn else float("inf"))  # the first turn warms up
            rates = [num / took for took in times]
            ratio = f"{times[1] / times[0]:8.1f}" if sides[1] is not None else f"{'-':>8}"
            print(f"{word:24}{f'{num} x 3 x {size} x {size}':>18}{rates[0]:12,.0f}{rates[1]:12,.0f}{ratio}", flush=True)


if __name__ == "__main__":
    main()
