from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from simsc.distributed import SynchronizedBatchNorm, share_images, synchronize_batchnorm


def images(count: int = 5) -> torch.Tensor:
    return torch.randn(count, 3, 4, 6, generator=torch.Generator().manual_seed(0)) * 2 + 7


def one_step(norm: nn.Module, batch: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    batch = batch.clone().requires_grad_()
    output = norm(batch)
    (output * weights).sum().backward()
    return output.detach(), batch.grad


def member(rank: int, folder: str) -> None:
    """One of two processes: the first has three of five images, the second four; two are held by both."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    mine = slice(0, 3) if rank == 0 else slice(1, 5)
    shares = torch.tensor([1, 0.5, 0.5, 1, 1])[mine]
    norm = SynchronizedBatchNorm.of(nn.BatchNorm2d(3)).train()
    share_images(nn.Sequential(norm), shares)
    output, gradient = one_step(norm, images()[mine], images(5).cos()[mine] * shares[:, None, None, None])
    torch.save([output, gradient, norm.running_mean, norm.running_var], f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_normalise_like_one(tmp_path: Path) -> None:
    mp.start_processes(member, (str(tmp_path),), nprocs=2, start_method="fork")
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    plain = nn.BatchNorm2d(3).train()
    output, gradient = one_step(plain, images(), images(5).cos())
    torch.testing.assert_close(torch.cat([first[0], second[0][2:]]), output)
    both = torch.zeros_like(gradient)
    both[:3] += first[1]
    both[1:] += second[1]
    torch.testing.assert_close(both, gradient, rtol=1e-4, atol=1e-5)
    for ours, theirs in ((first[2], plain.running_mean), (second[3], plain.running_var)):
        torch.testing.assert_close(ours, theirs)


def test_replaced_layers_keep_their_parameters_and_statistics() -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Sequential(nn.BatchNorm2d(3))).eval()
    before = dict(model.named_parameters())
    expected = model(images())
    synchronize_batchnorm(model)
    assert isinstance(model[1][0], SynchronizedBatchNorm)
    assert all(value is before[name] for name, value in model.named_parameters())
    torch.testing.assert_close(model(images()), expected)
