"""Parts of a graph on a GPU: what is drawn is what a CPU draws, and features may stay in the host's memory."""

import pytest
import torch

import leadline as ll
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.sampling import sampling
from leadline.layers import held_graph, noise

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def graph(way, num=500):
    g = torch.Generator().manual_seed(0)
    pairs = torch.stack([torch.randint(num, (8000,), generator=g), torch.randint(num, (8000,), generator=g)])
    own = Edges.of(pairs, num, directed=False)
    return Graph(torch.randn(num, 6, generator=g), own, batches=sampling(way) if way else None)


@pytest.mark.parametrize("way", ["hops", "neighbours(4)", "layers(50)", "parts(5)"])
def test_a_gpu_reads_what_a_cpu_reads(way):
    asked, keys = torch.arange(0, 60, 3)[:, None], torch.arange(20)
    found = []
    for device in ("cpu", "cuda"):
        model = ll.models.build("GCN", 6, 3, seed=0)
        model.held.put(graph(way))
        model.to(device)
        with noise.keyed(keys.to(device)):
            read = model.held(asked.to(device), 2)
            found.append((read.nodes.cpu(), [b.source.cpu() for b in read.blocks], model(asked.to(device)).cpu()))
    (nodes, blocks, out), (nodes_too, blocks_too, out_too) = found
    assert torch.equal(nodes, nodes_too) and all(torch.equal(a, b) for a, b in zip(blocks, blocks_too))
    torch.testing.assert_close(out, out_too, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("way", ["", "neighbours(4)"])
def test_features_that_do_not_fit_stay_in_the_hosts_memory(way, monkeypatch):
    asked, keys = torch.arange(0, 60, 3, device="cuda")[:, None], torch.arange(20, device="cuda")
    found = []
    for share in (0.5, 0.0):
        monkeypatch.setattr(held_graph, "_ROOM", share)
        model = ll.models.build("GCN", 6, 3, seed=0)
        model.held.put(graph(way))
        model.cuda()
        assert model.held.graph.x.is_cuda is (share > 0) and model.held.graph.edges.source.is_cuda
        with noise.keyed(keys):
            loss = model(asked).square().sum()
            loss.backward()
        with torch.no_grad():
            found.append((loss.detach(), model.stack.layers[0].map.weight.grad.clone(), model.eval()(asked)))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
