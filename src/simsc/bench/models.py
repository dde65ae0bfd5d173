"""Whole networks: one pair, a test set, a training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor

from simsc.bench.measure import alternate
from simsc.bench.ratio import Ratio
from simsc.coordinates import resize_points
from simsc.data.records import ImageRef, Pair
from simsc.data.sources import load_pairs
from simsc.evaluation.cache import TrunkCache
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.protocol import find_protocol
from simsc.matching.localize import localize
from simsc.models.checkpoints import build_model
from simsc.models.inference import prepare_for_inference
from simsc.models.model import SimSC
from simsc.training.batches import collate
from simsc.training.config import Config
from simsc.training.objective import PairObjective


def bench_evaluation(quick: bool = False) -> list[Ratio]:
    """Evaluation of a set built like PF-Willow: 10 kinds of 10 images, every ordered pair of a kind, 900 pairs."""
    side, kinds, each = (64, 2, 3) if quick else (256, 10, 10)
    model = prepare_for_inference(_model("resnet50.v1_in1k"))
    pairs, images = _willow_like(kinds, each)
    encoder = ImageEncoder(model, find_protocol("paper-256", side))
    evaluator = Evaluator(encoder)
    inputs = encoder.inputs(images).split(encoder.batch_size)
    sample = pairs[:: max(len(pairs) // 10, 1)]

    @torch.inference_mode()
    def bare() -> None:
        for batch in inputs:
            model.backbone(batch)

    def pair_by_pair() -> None:
        for pair in sample:
            Evaluator(ImageEncoder(model, encoder.protocol, batch_size=1)).predict([pair])

    seconds = alternate(
        {"all": lambda: evaluator.predict(pairs), "bare": bare, "sample": pair_by_pair}, repeats=1 if quick else 3
    )
    singly = seconds["sample"] * len(pairs) / len(sample)
    what = f"evaluation, {len(pairs)} pairs of {len(images)} images"
    times = f"{seconds['all']:.2f} s against"
    return [
        Ratio(
            f"{what}, time against the bare backbone",
            seconds["all"] / seconds["bare"],
            1.15,
            at_least=False,
            detail=f"{times} {seconds['bare']:.2f} s",
        ),
        Ratio(
            f"{what}, faster than pair by pair",
            singly / seconds["all"],
            10,
            at_least=True,
            detail=f"{times} {singly:.1f} s ({len(sample)} pairs measured)",
        ),
    ]


def bench_training(quick: bool = False) -> list[Ratio]:
    """A last-block step of ResNet-101 on two pairs in both orders, with the trunk cache and without."""
    side = 64 if quick else 256
    model = _model("resnet50.v1_in1k" if quick else "resnet101.tv_in1k", "last-block").train()
    drawn, _ = _willow_like(2, 2)
    protocol = find_protocol("paper-256", side)
    with_cache, without = ImageEncoder(model, protocol, TrunkCache()), ImageEncoder(model, protocol)
    batch = collate(drawn, without.frame)
    objective = PairObjective(model, Config(image_size=side))

    def step(encoder: ImageEncoder) -> Callable[[], float]:
        def run() -> float:
            model.zero_grad(set_to_none=True)
            loss = objective(encoder.states(batch.images), (side, side), batch).total / len(batch)
            loss.backward()
            return loss.item()

        return run

    def gradients() -> list[Tensor]:
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    cached, plain = step(with_cache), step(without)
    (loss, ours), (expected, theirs) = (cached(), gradients()), (plain(), gradients())
    difference = max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))
    seconds = alternate({"cached": cached, "plain": plain}, repeats=2 if quick else 9)
    return [
        Ratio(
            "last-block step with the trunk cache, faster than without",
            seconds["plain"] / seconds["cached"],
            10,
            at_least=True,
            detail=f"{seconds['cached']:.3f} s against {seconds['plain']:.3f} s",
        ),
        Ratio(
            "the same step, largest difference of loss and gradients",
            max(abs(loss - expected), difference),
            1e-6,
            at_least=False,
            unit="",
            detail=f"loss {loss:.6f} and {expected:.6f}",
        ),
    ]


@torch.inference_mode()
def bench_pair(quick: bool = False) -> list[Ratio]:
    """Matching 20 points of one pair, against two forwards of the backbone."""
    side = 64 if quick else 256
    model = prepare_for_inference(_model("resnet50.v1_in1k"))
    images = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    points = torch.rand(1, 20, 2, generator=torch.Generator().manual_seed(1)) * (side - 1)

    def match() -> Tensor:
        features = model.encode(images)
        source, target = features.select(slice(0, 1)), features.select(slice(1, 2))
        cells = localize(model.score_maps(source, target, points), "kernel-soft-argmax")
        return resize_points(cells, target.map_size, target.image_size)

    def forwards() -> None:
        for image in images.split(1):
            model.backbone(image)

    seconds = alternate({"match": match, "forwards": forwards}, repeats=3 if quick else 9)
    return [
        Ratio(
            "match of one pair, time against two backbone forwards",
            seconds["match"] / seconds["forwards"],
            1.05,
            at_least=False,
            detail=f"{seconds['match']:.3f} s against {seconds['forwards']:.3f} s",
        )
    ]


def _model(backbone: str, trainable: str = "none") -> SimSC:
    return build_model({"backbone": backbone, "trainable": trainable}, weights="random").eval()


def _willow_like(kinds: int, each: int) -> tuple[list[Pair], list[ImageRef]]:
    """Every ordered pair of ``each`` scenes of a kind, with ten points; drawn once and kept in memory."""
    drawn: dict[str, Pair] = {}
    for pair in load_pairs("scenes", None, "test"):
        drawn.setdefault(pair.source.key, pair)
    chosen = list(drawn.values())[: kinds * each]
    if len(chosen) < kinds * each:  # the data set has fewer images: the rest are copies under another name
        chosen += [replace(p, source=replace(p.source, key=f"{p.source.key}'")) for p in chosen]
    pairs, images = [], []
    for kind in range(kinds):
        group = chosen[kind * each : (kind + 1) * each]
        refs = [_kept(pair.source) for pair in group]
        images.extend(refs)
        for (a, left), (b, right) in permutations(zip(refs, group, strict=True), 2):
            count = min(len(left.source_points), len(right.source_points), 10)
            pairs.append(
                Pair(
                    name=f"{a.key}-{b.key}",
                    category=f"kind {kind}",
                    source=a,
                    target=b,
                    source_points=left.source_points[:count],
                    target_points=right.source_points[:count],
                )
            )
    return pairs, images


def _kept(ref: ImageRef) -> ImageRef:
    pixels = ref.load()
    return ImageRef(key=ref.key, size=ref.size, render=lambda: pixels)
