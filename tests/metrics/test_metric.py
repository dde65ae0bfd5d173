"""The PCK metric: equal to the pure functions, in one process and merged from two."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from torch import Tensor

from simsc.errors import ConfigError
from simsc.metrics.metric import PCK
from simsc.metrics.pck import pck

NAMES = ["cat", "dog", "cat", "bus", "dog"]
BASE = torch.tensor([100.0, 80.0, 60.0, 120.0, 90.0])


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(5, 7, 2, generator=generator) * 100
    predicted = truth + torch.randn(5, 7, 2, generator=generator) * 8
    mask = torch.rand(5, 7, generator=generator) > 0.4
    mask[3] = False  # a pair without any point
    return predicted, truth, mask


def update(metric: PCK, rows: slice) -> None:
    predicted, truth, mask = batch()
    metric.update(predicted[rows], truth[rows], mask[rows], BASE[rows], NAMES[rows])


def single() -> dict[str, Any]:
    metric = PCK(NAMES)
    update(metric, slice(None))
    return metric.compute()


def test_equals_the_pure_functions():
    predicted, truth, mask = batch()
    rates = 100 * pck(predicted, truth, mask, BASE)
    result = single()
    seen = [0, 1, 2, 4]
    assert list(result["per_image"].values()) == pytest.approx(rates[seen].mean(0).tolist())
    assert list(result["per_category"]["cat"].values()) == pytest.approx(rates[[0, 2]].mean(0).tolist())
    counts = mask.sum(1)[:, None]
    per_point = (rates[seen] * counts[seen]).sum(0) / counts.sum()
    assert list(result["per_point"].values()) == pytest.approx(per_point.tolist())
    assert (result["pairs"], result["points"]) == (4, int(mask.sum()))
    assert set(result["per_category"]) == {"cat", "dog"}


def test_batches_add_up_and_reset_forgets():
    metric = PCK(NAMES)
    for row in range(5):
        update(metric, slice(row, row + 1))
    assert metric.compute() == single()
    metric.reset()
    update(metric, slice(0, 1))
    assert metric.compute()["pairs"] == 1


def test_forward_gives_the_batch_and_keeps_the_total():
    metric = PCK(NAMES)
    predicted, truth, mask = batch()
    first = metric(predicted[:2], truth[:2], mask[:2], BASE[:2], NAMES[:2])
    metric(predicted[2:], truth[2:], mask[2:], BASE[2:], NAMES[2:])
    assert first["pairs"] == 2
    assert metric.compute() == single()


def test_padding_never_matters():
    predicted, truth, mask = batch()
    metric = PCK(NAMES)
    metric.update(predicted.masked_fill(~mask[..., None], 1e6), truth, mask, BASE, NAMES)
    assert metric.compute() == single()


def test_unknown_category_is_refused():
    with pytest.raises(ConfigError, match="unknown category 'cow'"):
        PCK(["cat"]).update(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), torch.ones(1, 1).bool(), torch.ones(1), ["cow"])


def _worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    metric = PCK(NAMES)
    update(metric, slice(0, 2) if rank == 0 else slice(2, 5))  # shares of different size
    result = metric.compute()
    Path(folder, f"{rank}.json").write_text(json.dumps(result))
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs to fork processes")
def test_two_processes_merge_to_the_result_of_one(tmp_path):
    context = multiprocessing.get_context("fork")  # new interpreters would import for seconds
    workers = [context.Process(target=_worker, args=(rank, str(tmp_path)), daemon=True) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    expected = json.loads(json.dumps(single()))
    for rank in range(2):
        merged = json.loads((tmp_path / f"{rank}.json").read_text())
        for key in ("per_image", "per_point"):
            assert merged[key] == pytest.approx(expected[key])
        assert merged["per_category"].keys() == expected["per_category"].keys()
        for name, values in expected["per_category"].items():
            assert merged["per_category"][name] == pytest.approx(values)
        assert (merged["pairs"], merged["points"]) == (expected["pairs"], expected["points"])
