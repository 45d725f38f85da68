"""Residual blocks: both orders as written out by hand, every kind of skip, and that no module is read twice."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leadline.errors import UnknownName
from leadline.init import branches
from leadline.layers.residual_block import ResidualBlock, ZeroSkip, bottleneck, draw_kernels, plain, residual_stage


def shaken(module):
    """With statistics and gains that are not 0 and 1, so that a normalisation in the wrong place shows."""
    torch.manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            for tensor in (part.weight, part.bias, part.running_mean, part.running_var):
                nn.init.uniform_(tensor, 0.5, 1.5)
    return module.double().eval()


@pytest.fixture
def x():
    return torch.randn(2, 4, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_first_paper_normalises_after_and_bends_the_sum(x):
    [block] = shaken(residual_stage(1, 4, lambda stride: plain(6, stride), stride=2))
    f = block.branch
    made = f.norm2(F.conv2d(F.relu(f.norm1(F.conv2d(x, f.conv1.weight, None, 2, 1))), f.conv2.weight, None, 1, 1))
    kept = block.skip.norm(F.conv2d(x, block.skip.conv.weight, None, 2))
    torch.testing.assert_close(block(x), F.relu(kept + made))


def test_the_second_paper_normalises_before_and_leaves_the_sum_alone(x):
    first, second = shaken(residual_stage(2, 4, lambda stride: bottleneck(3, 6, stride), stride=2, order="pre"))
    f = first.branch
    h = F.relu(first.enter.norm(x))  # both ways read it
    made = F.conv2d(F.relu(f.norm2(f.conv1(h))), f.conv2.weight, None, 2, 1)
    made = f.conv3(F.relu(f.norm3(made)))
    torch.testing.assert_close(first(x), F.conv2d(h, first.skip.conv.weight, None, 2) + made)
    assert second.enter is None and second.last is None
    y = first(x)
    torch.testing.assert_close(second(y), y + second.branch(y))
    assert [name for name, _ in second.branch.named_children()][:3] == ["norm1", "relu1", "conv1"]


def test_a_zero_skip_keeps_what_came_and_has_no_weights(x):
    skip = ZeroSkip(4, 6, 2)
    assert torch.equal(skip(x)[:, :4], x[:, :, ::2, ::2]) and not skip(x)[:, 4:].any()
    [block] = residual_stage(1, 4, lambda stride: plain(6, stride), stride=2, skip="zeros").double()
    assert block(x).shape == (2, 6, 4, 3) and not list(block.skip.parameters())


@pytest.mark.parametrize("order", ["post", "pre"])
def test_without_skips_only_the_branch_is_left(x, order):
    stage = shaken(residual_stage(2, 4, lambda stride: plain(4, stride), order=order, skip="none"))
    h = x
    for block in stage:
        assert block.skip is None and block.enter is None and block.residual_branch == ()
        h = F.relu(block.branch(h)) if order == "post" else block.branch(h)
    torch.testing.assert_close(stage(x), h)


def test_groups_are_branches_side_by_side():
    """A 3x3 of G groups between two 1x1 is the sum of G small branches, each with its rows and columns of them."""
    [block] = residual_stage(1, 4, lambda stride: bottleneck(6, 4, stride, groups=3)).double()
    U, C, V = (conv.weight for conv in (block.branch.conv1, block.branch.conv2, block.branch.conv3))
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    whole = F.conv2d(F.relu(F.conv2d(F.relu(F.conv2d(x, U)), C, padding=1, groups=3)), V)
    parts = 0
    for g in range(3):
        rows = slice(2 * g, 2 * g + 2)
        parts = parts + F.conv2d(F.relu(F.conv2d(F.relu(F.conv2d(x, U[rows])), C[rows], padding=1)), V[:, rows])
    torch.testing.assert_close(whole, parts)


def test_dropout_stands_before_the_last_convolution_and_sites_differ():
    stage = residual_stage(2, 4, lambda stride: plain(4, stride), order="pre", p_drop=0.5, site=7)
    for k, block in enumerate(stage):
        names = [name for name, _ in block.branch.named_children()]
        assert names[-2:] == ["drop", "conv2"] and block.branch.drop.site == 7 + k


def test_branches_are_declared_for_first_weights():
    stage = residual_stage(3, 4, lambda stride: plain(8, stride), stride=2)
    assert [branch.path for branch in branches(stage)] == ["0", "1", "2"]
    assert [len(branch.maps) for branch in branches(stage)] == [2, 2, 2]  # the projection is not of the branch


@torch.no_grad()
def test_first_kernels_keep_the_size_of_what_they_hand_on():
    conv = nn.Conv2d(128, 128, 3, padding=1)
    draw_kernels(conv)
    z = conv(F.relu(torch.randn(4, 128, 12, 12)))
    assert 0.8 < float(z[:, :, 1:-1, 1:-1].std()) < 1.2 and not conv.bias.any()


@pytest.mark.parametrize(("option", "hint"), [({"order": "per"}, "Did you mean pre"), ({"skip": "zero"}, "zeros")])
def test_words_that_are_not_known_are_refused(option, hint):
    with pytest.raises(UnknownName, match=hint):
        residual_stage(1, 4, plain, **option)


def test_a_block_of_any_parts():
    block = ResidualBlock(nn.Conv2d(2, 2, 1), nn.Identity(), last=nn.Tanh())
    x = torch.randn(1, 2, 3, 3)
    assert torch.equal(block(x), torch.tanh(x + block.branch(x)))
