"""What networks of sets see, and what they cannot."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves, Points
from leadline.data.account import counted
from leadline.data.solids import SOLIDS, generate
from leadline.layers.point_transform import PointTransform
from leadline.lens.critical_set import critical_set
from leadline.models.deep_sets import DeepSets
from leadline.models.point_net import PointNet
from leadline.models.recurrent import Recurrent
from leadline.models.set_transformer import SetTransformer

_CHANNELS = 3


@claim(
    "set-symmetry",
    "What Deep Sets, PointNet and the set transformer say of a set does not depend on the order of its members, nor on "
    "padding or on the other sets of its batch; what they say of each member moves with it. A recurrent network "
    "notices the order",
    "Zaheer et al. 2017; Qi et al. 2017; Lee et al. 2019; Understanding Deep Learning, section 13.2",
)
def set_symmetry(full: bool) -> Evidence:
    sizes = (1, 2, 5, 20, 100) if full else (1, 3, 10)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        nets = {f"{name}, {head}": _net(name, head) for name in _NETS for head in ("set", "members")}
        found = {name: [_moved(net, size) for size in sizes] for name, net in nets.items()}
        reads = Recurrent(4, channels=_CHANNELS, dim=16, p_drop=0.0).double().eval()
        order = [_moved(reads, max(size, 3)) for size in sizes]
    checks = (
        *(Check(f"{name}: largest change, relative", max(own), high=1e-9) for name, own in found.items()),
        Check("recurrent network: least change", min(order), low=1e-3),
    )
    worst = {head: [max(max(found[f"{name}, {head}"]), 1e-17) for name in _NETS] for head in ("set", "members")}
    xs = tuple(map(float, range(len(_NETS))))
    curves: dict[str, Points] = {f"answer of {_HEADS[head]}": (xs, tuple(own)) for head, own in worst.items()}
    curves["answer of the set, with an order"] = ((float(len(_NETS)),), (min(order),))
    view = Curves(
        "Members change places", "", "change of the answer, relative", curves, log="y", names=(*_NETS, "recurrent")
    )
    return Evidence(checks, view)


@claim(
    "critical-points",
    "What PointNet says of a cloud is decided by the points where a maximum over points is taken: "
    "without all others it is the same, and without these it is not",
    "Qi et al. 2017, theorem 2",
)
def critical_points(full: bool) -> Evidence:
    counts = (64, 256, 1024, 4096) if full else (64, 256, 1024)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = _woken(PointNet(len(SOLIDS), _CHANNELS, width=0.25)).double().eval()
        shares, changes, without = [], [], []
        for count in counts:
            clouds = torch.from_numpy(generate(num=10, points=count, noise=0.02, seed=1)[0]).double()
            clouds = clouds - clouds.mean(1, keepdim=True)
            views = [critical_set(net, cloud) for cloud in clouds]
            shares.append(sum(len(view.critical) for view in views) / (10 * count))
            changes.append(max(view.change for view in views))
            without.append(min(_without(net, cloud, view.decides > 0) for cloud, view in zip(clouds, views)))
    checks = (
        Check("change where critical points alone are left, relative", max(changes), high=1e-9),
        Check("change where they alone are left out, least", min(without), low=1e-4),
        Check(f"share of {counts[-1]:,} points that is critical", shares[-1], high=0.5),
    )
    xs = tuple(map(float, counts))
    view = Curves(
        "Points that decide", "points of a cloud", "critical, of all", {"share": (xs, tuple(shares))}, log="x"
    )
    return Evidence(checks, view)


@claim(
    "deep-sets-width",
    "A sum over members into a vector narrower than the set is large cannot hold the set: different sets have the same "
    "vector, and no network after it finds the members again; each set size needs a vector as wide",
    "Wagstaff et al. 2019, On the limitations of representing functions on sets",
)
def deep_sets_width(full: bool) -> Evidence:
    widths, sizes = ((1, 2, 3, 4, 6, 8, 16), (1, 2, 4, 8)) if full else ((1, 2, 4), (1, 2, 4))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        apart, same = _twins(dim_set=4, members=8)
        rank = _rank(dim_set=4, members=8), _rank(dim_set=8, members=8)
        found = {M: [_lost(M, N, 3000 if full else 250) for N in widths] for M in sizes}
    one, two, four = (dict(zip(widths, found[M])) for M in (1, 2, 4))
    checks = (
        Check("directions of 8 numbers that a vector of 4 sees", rank[0], 4, 4),
        Check("directions of 8 numbers that a vector of 8 sees", rank[1], 8, 8),
        Check("how far two sets of one vector of 4 are apart", apart, low=0.05),
        Check("how far their vectors are, relative", same, high=1e-9),
        Check("1 member through a vector of 1: lost", one[1], high=0.05),
        Check("2 members through a vector of 1: lost", two[1], low=0.2),
        Check("2 members through a vector of 2: lost", two[2], high=0.15),
        Check("4 members through a vector of 1: lost", four[1], low=0.4),
        Check("4 members through a vector of 2: lost", four[2], low=0.2),
        Check("4 members: what a vector of 4 loses, over what one of 2 does", four[4] / four[2], high=0.85),
    )
    xs = tuple(map(float, widths))
    curves: dict[str, Points] = {counted(M, "member"): (xs, tuple(own)) for M, own in found.items()}
    view = Curves("Members found again", "width of the pooled vector", "error over deviation", curves, log="x")
    return Evidence(checks, view)


# ── networks, with transforms that are not the identity any more ──

_NETS = ("sum", "mean", "max", "PointNet", "induced", "attention")
_HEADS = {"set": "the set", "members": "each member"}


def _net(name: str, head: str) -> nn.Module:
    if name == "PointNet":
        return _woken(PointNet(4, _CHANNELS, width=0.1, head=head)).double().eval()
    if name in ("induced", "attention"):
        seeds = 4 if name == "induced" else 0
        return SetTransformer(4, _CHANNELS, dim=16, num_heads=2, num_seeds=seeds, head=head).double().eval()
    return DeepSets(4, _CHANNELS, dim=16, pool=name, equivariant=True, head=head).double().eval()


def _woken(net: PointNet) -> PointNet:
    for module in net.modules():
        if isinstance(module, PointTransform):
            nn.init.normal_(module.matrix.weight, std=0.1)
    return net


def _moved(net: nn.Module, members: int) -> float:
    """Largest change, relative to the largest answer, where members change places, are padded and have neighbours."""
    x, order = torch.randn(members, _CHANNELS, dtype=torch.float64), torch.randperm(members)
    if torch.equal(order, torch.arange(members)) and members > 1:
        order = order.flip(0)
    rows = torch.zeros(2, members + 3, _CHANNELS + 1, dtype=torch.float64)
    rows[0, :members, :-1], rows[0, :members, -1] = x[order], 1
    rows[1, :, :-1], rows[1, :, -1] = torch.randn(members + 3, _CHANNELS, dtype=torch.float64), 1
    with torch.no_grad():
        alone, moved = net(x[None])[0], net(rows)[0]
    if alone.dim() == 2:
        alone, moved = alone[order], moved[:members]
    return float((alone - moved).abs().max() / alone.abs().max())


def _without(net: nn.Module, cloud: Tensor, critical: object) -> float:
    """Change of the answer without the critical points, relative."""
    left = cloud[~torch.as_tensor(critical)]
    if not len(left):
        return 1.0  # nothing is left to answer
    with torch.no_grad():
        all_, rest = net(cloud[None]), net(left[None])
    return float((all_ - rest).abs().max() / all_.abs().max())


# ── what a narrow vector holds ──


def _vector(dim_set: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, dim_set)).double()


def _rank(dim_set: int, members: int) -> int:
    """Directions of a set's numbers in which its pooled vector moves."""
    phi = _vector(dim_set)
    x = torch.linspace(-2, 2, members, dtype=torch.float64)
    return int(torch.linalg.matrix_rank(_slopes(phi, x), rtol=1e-10))


def _slopes(phi: nn.Module, x: Tensor) -> Tensor:
    return torch.autograd.functional.jacobian(lambda own: phi(own[:, None]).sum(0), x)


def _twins(dim_set: int, members: int) -> tuple[float, float]:
    """Two sets of one vector: how far the members of one are from those of the other, and how far the vectors are.

    From a set along a direction that the vector does not see, and back onto it by Newton's method.
    """
    phi = _vector(dim_set)
    first = torch.linspace(-2, 2, members, dtype=torch.float64)
    asked, x = phi(first[:, None]).sum(0).detach(), first.clone()
    for _ in range(20):
        unseen = torch.linalg.svd(_slopes(phi, x)).Vh[dim_set]
        x = x + 0.02 * unseen * torch.sign(unseen[0] if float(unseen[0].abs()) > 1e-3 else unseen[1])
        for _ in range(3):
            x = x - torch.linalg.pinv(_slopes(phi, x)) @ (phi(x[:, None]).sum(0).detach() - asked)
    apart = float((x.sort().values - first.sort().values).abs().max())
    return apart, float((phi(x[:, None]).sum(0) - asked).abs().max().detach() / asked.abs().max())


def _lost(members: int, dim_set: int, steps: int) -> float:
    """Error with which some numbers, in order of size, are found again after a sum, over their own deviation."""
    stream = torch.Generator().manual_seed(0)
    net = DeepSets(members, 1, dim=64, dim_set=dim_set, num_layers=2, norm=False, typical=float(members))
    moves = torch.optim.Adam(net.parameters(), 3e-3)
    falls = torch.optim.lr_scheduler.OneCycleLR(moves, 1e-2, total_steps=steps)
    scale = _drawn(4000, members, stream)[1].std(0)
    for _ in range(steps):
        x, y = _drawn(256, members, stream)
        moves.zero_grad()
        ((net(x) - y) / scale).square().mean().backward()
        moves.step()
        falls.step()
    x, y = _drawn(4000, members, stream)
    with torch.no_grad():
        return float(((net(x) - y) / scale).square().mean().sqrt())


def _drawn(count: int, members: int, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    x = 2 * torch.rand(count, members, 1, generator=stream) - 1
    return x, x[..., 0].sort(1).values
