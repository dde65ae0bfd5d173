"""All benchmarks by name: queries first against the full correlation tensor, and whole networks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from simsc.bench.ratios import Ratio, alternate, extra_bytes
from simsc.data.records import ImageRef, Pair
from simsc.data.sources import load_pairs
from simsc.evaluation.cache import TrunkCache
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.protocol import find_protocol
from simsc.matcher import Matcher
from simsc.matching.dense import dense_match
from simsc.matching.features import Features, neighbours
from simsc.matching.localize import localize, peak_probability
from simsc.matching.scores import query_scorer, unit_features
from simsc.models import DEFAULT, QUICK
from simsc.models.model import SimSC
from simsc.models.trained import Trained, build_model
from simsc.registry import Registry
from simsc.training.batches import collate
from simsc.training.config import Config
from simsc.training.objective import PairObjective

Case = Callable[[bool], list[Ratio]]
PACKAGED = (DEFAULT, QUICK)
"""What the cases of whole models are measured on."""
PICTURE = (375, 500)
"""``(height, width)`` of the pictures that are matched."""
CASES: Registry[Case] = Registry("benchmark")
WHEN_ASKED = ("bulk", "collection")
"""They need an extra, and take an hour."""
CASES.lazy("bulk", "simsc.bench.bulk:bench_bulk")
CASES.lazy("collection", "simsc.bench.collection:bench_collection")


def run_cases(names: Sequence[str] = (), quick: bool = False) -> Iterator[Ratio]:
    """Run the named benchmarks, all by default; ``quick`` shrinks them so that only their working is shown."""
    for case in [CASES[name] for name in names or (name for name in CASES if name not in WHEN_ASKED)]:
        yield from case(quick)


def _features(side: int, channels: int, seed: int) -> Features:
    maps = torch.randn(1, channels, side, side, generator=torch.Generator().manual_seed(seed))
    return Features(maps, torch.full((1, 1, 1), 0.17), (side * 16, side * 16))


def _as_encoded(features: Features) -> Features:
    """The same features as a model prepared for inference leaves them in memory: channels last."""
    return replace(features, maps=features.maps.contiguous(memory_format=torch.channels_last))


def full_scores(source: Tensor, target: Tensor) -> Tensor:
    """The whole tensor ``(1, hw, h, w)`` of scores between all cells of unit features: what is avoided."""
    result: Tensor = (source.flatten(2).transpose(1, 2) @ target.flatten(2)).unflatten(2, target.shape[-2:])
    return result


def full_query(source: Tensor, target: Tensor, points: Tensor) -> Tensor:
    """Matches of points ``(1, n, 2)`` in cells, interpolated from the full tensor of unit features."""
    scores = full_scores(source, target)
    cells, weights = neighbours(points, (source.shape[-2], source.shape[-1]))
    around = scores[0, cells[0].flatten()].unflatten(0, cells.shape[1:])
    return localize((around * weights[0, :, :, None, None]).sum(dim=1)[None], "kernel-soft-argmax")


def full_dense(source: Features, target: Features) -> tuple[Tensor, Tensor]:
    """Matches and confidences of all cells through the full tensor."""
    scores = full_scores(unit_features(source.maps, source.beta), unit_features(target.maps, target.beta))
    return localize(scores, "kernel-soft-argmax"), peak_probability(scores)


@CASES.register("queries")
@torch.inference_mode()
def bench_queries(quick: bool = False) -> list[Ratio]:
    """20 queries on a 64x64 map."""
    side, channels = (24, 64) if quick else (64, 1024)
    source, target = _features(side, channels, 0), _features(side, channels, 1)
    points = torch.rand(1, 20, 2, generator=torch.Generator().manual_seed(2)) * (side - 1)

    left, right = _as_encoded(source), _as_encoded(target)
    # What depends on the images alone is done once per image, on both sides: norms here, unit features there.
    scores = query_scorer(left.maps, right.maps, left.beta, right.beta)
    units = unit_features(source.maps, source.beta), unit_features(target.maps, target.beta)

    def ours() -> Tensor:
        return localize(scores(points), "kernel-soft-argmax")

    def full() -> Tensor:
        return full_query(*units, points)

    torch.testing.assert_close(ours(), full(), rtol=0, atol=1e-2)
    seconds = alternate({"ours": ours, "full": full}, repeats=3 if quick else 7)
    lean, fat = extra_bytes(ours), extra_bytes(full)
    return [
        Ratio(
            f"20 queries on {side}x{side}, faster than the full tensor",
            seconds["full"] / seconds["ours"],
            50,
            at_least=True,
            detail=f"{1e3 * seconds['ours']:.1f} ms against {1e3 * seconds['full']:.1f} ms",
        ),
        Ratio(
            f"20 queries on {side}x{side}, leaner than the full tensor",
            fat / lean,
            8,
            at_least=True,
            detail=f"{lean / 2**20:.1f} MB against {fat / 2**20:.1f} MB",
        ),
    ]


@CASES.register("dense")
@torch.inference_mode()
def bench_dense(quick: bool = False) -> list[Ratio]:
    """Every cell of a 64x64 map."""
    side, channels = (24, 64) if quick else (64, 1024)
    source, target = _features(side, channels, 0), _features(side, channels, 1)
    left, right = _as_encoded(source), _as_encoded(target)
    seconds = alternate(
        {"ours": lambda: dense_match(left, right), "full": lambda: full_dense(source, target)},
        repeats=3 if quick else 5,
    )
    memory = extra_bytes(lambda: dense_match(left, right)) / 2**20
    full_memory = extra_bytes(lambda: full_dense(source, target)) / 2**20
    return [
        Ratio(
            f"dense {side}x{side}, extra memory",
            memory,
            64,
            at_least=False,
            unit="MB",
            detail=f"{full_memory:.0f} MB with the full tensor",
        ),
        Ratio(
            f"dense {side}x{side}, time against the full tensor",
            seconds["ours"] / seconds["full"],
            1.0,
            at_least=False,
            detail=f"{seconds['ours']:.2f} s against {seconds['full']:.2f} s",
        ),
    ]


@CASES.register("match")
@torch.inference_mode()
def bench_pair(quick: bool = False) -> list[Ratio]:
    """Matching 10 points of two pictures as the packaged models do, against two forwards of the bare backbone."""
    return [ratio for name in PACKAGED for ratio in _match_ratios(name, quick)]


def _match_ratios(name: str, quick: bool) -> list[Ratio]:
    matcher, half = _matcher(name, quick), Trained.open(name).ready(precision="auto").network
    random = np.random.default_rng(0)
    source, target = random.integers(0, 255, (2, *PICTURE, 3), dtype=np.uint8)
    points = random.uniform(0, min(PICTURE) - 1, (10, 2))
    inputs = torch.stack([matcher.view.frame(PICTURE).to_input(each) for each in (source, target)])
    encoded = matcher.encode(source), matcher.encode(target)
    seconds = alternate(
        {
            "match": lambda: matcher.match(source, target, points),
            "forwards": lambda: _bare(matcher.model, inputs.split(1)),
            "encoded": lambda: matcher.match(encoded[0], encoded[1], points),
            "float32": lambda: matcher.model.encode(inputs),
            "auto": lambda: half.encode(inputs),
        },
        repeats=3 if quick else 9,
    )
    return [
        Ratio(
            f"{name}: match of two pictures, time against two backbone forwards",
            seconds["match"] / seconds["forwards"],
            1.05,
            at_least=False,
            detail=f"{seconds['match']:.3f} s against {seconds['forwards']:.3f} s",
        ),
        Ratio(
            f"{name}: match of two encoded pictures, share of two backbone forwards",
            seconds["encoded"] / seconds["forwards"],
            0.05,
            at_least=False,
            detail=f"{1e3 * seconds['encoded']:.1f} ms",
        ),
        Ratio(
            f"{name}: encoding in the precision that suits the processor, faster than in float32",
            seconds["float32"] / seconds["auto"],
            1.4 if half.precision else 0.9,  # where that is float32 too, there is nothing to gain
            at_least=True,
            detail=f"{seconds['auto']:.3f} s against {seconds['float32']:.3f} s",
        ),
    ]


@CASES.register("start")
def bench_start(quick: bool = False) -> list[Ratio]:
    """``simsc match`` of two pictures as a whole command, against importing PyTorch and two forwards."""
    matcher = _matcher(DEFAULT, quick=False)
    images = torch.rand(2, 3, matcher.view.side, matcher.view.side, generator=torch.Generator().manual_seed(0))
    with TemporaryDirectory() as folder:
        pictures = [str(Path(folder) / f"{number}.jpg") for number in range(2)]
        for picture, pair in zip(pictures, load_pairs("scenes", None, "test"), strict=False):
            Image.fromarray(pair.source.load()).save(picture)
        seconds = alternate(
            {
                "match": lambda: _python("-m", "simsc", "match", *pictures, "--grid", "3"),
                "torch": lambda: _python("-c", "import torch"),
                "forwards": lambda: _bare(matcher.model, images.split(1)),
            },
            repeats=1 if quick else 9,
        )
    bare = seconds["torch"] + seconds["forwards"]
    return [
        Ratio(
            "simsc match as a command, time against importing PyTorch and two forwards",
            seconds["match"] / bare,
            1.6,
            at_least=False,
            detail=f"{seconds['match']:.2f} s against {seconds['torch']:.2f} s and {seconds['forwards']:.2f} s",
        )
    ]


@CASES.register("training")
def bench_training(quick: bool = False) -> list[Ratio]:
    """A last-block step on two pairs in both orders, with the trunk cache and without."""
    resnet = "resnet50.v1_in1k" if quick else "resnet101.tv_in1k"
    vit = "vit_small_patch14.dinov2"
    return [*_step_ratios("ResNet-101", resnet, 10, quick), *_step_ratios("ViT-S/14", vit, 4, quick)]


def _step_ratios(title: str, backbone: str, goal: float, quick: bool) -> list[Ratio]:
    model = _model(backbone, "last-block").train()
    side = model.backbone.stride * (4 if quick else 16)
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
            result: float = loss.item()
            return result

        return run

    def gradients() -> list[Tensor]:
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    cached, plain = step(with_cache), step(without)
    (loss, ours), (expected, theirs) = (cached(), gradients()), (plain(), gradients())
    difference = max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))
    seconds = alternate({"cached": cached, "plain": plain}, repeats=2 if quick else 9)
    return [
        Ratio(
            f"{title}: last-block step with the trunk cache, faster than without",
            seconds["plain"] / seconds["cached"],
            goal,
            at_least=True,
            detail=f"{seconds['cached']:.3f} s against {seconds['plain']:.3f} s",
        ),
        Ratio(
            f"{title}: the same step, largest difference of loss and gradients",
            max(abs(loss - expected), difference),
            1e-6,
            at_least=False,
            unit="",
            detail=f"loss {loss:.6f} and {expected:.6f}",
        ),
    ]


@CASES.register("evaluation")
def bench_evaluation(quick: bool = False) -> list[Ratio]:
    """Evaluation of a set built like PF-Willow: 10 kinds of 10 images, every ordered pair of a kind, 900 pairs."""
    return [ratio for name in PACKAGED for ratio in _evaluation_ratios(name, quick)]


def _evaluation_ratios(name: str, quick: bool) -> list[Ratio]:
    kinds, each = (2, 3) if quick else (10, 10)
    matcher = _matcher(name, quick)
    pairs, images = _willow_like(kinds, each)

    def evaluator(batch_size: int) -> Evaluator:
        rules, side = find_protocol(matcher.trained.protocol), matcher.view.side
        encoder = ImageEncoder(matcher.model, rules, batch_size=batch_size, side=side)
        return Evaluator(encoder, matcher.localizer, matcher.beta_eval)

    together, singly = evaluator(batch_size=16), evaluator(batch_size=1)
    inputs = together.encoder.inputs(images).split(together.encoder.batch_size)
    sample = pairs[:: max(len(pairs) // 10, 1)]

    def pair_by_pair() -> None:
        for pair in sample:
            singly.predict([pair])

    work = {"all": lambda: together.predict(pairs), "bare": lambda: _bare(matcher.model, inputs)}
    seconds = alternate({**work, "sample": pair_by_pair}, repeats=1 if quick else 3)
    alone = seconds["sample"] * len(pairs) / len(sample)
    what = f"{name}: evaluation, {len(pairs)} pairs of {len(images)} images"
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
            alone / seconds["all"],
            10,
            at_least=True,
            detail=f"{times} {alone:.1f} s ({len(sample)} pairs measured)",
        ),
    ]


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def _matcher(name: str, quick: bool) -> Matcher:
    """A packaged model as it is used, coherence and all; ``quick`` makes its inputs small."""
    trained = Trained.open(name)
    return Matcher(trained.ready(), size=4 * trained.network.backbone.stride if quick else None, device="cpu")


@torch.inference_mode()
def _bare(model: SimSC, batches: Sequence[Tensor]) -> None:
    """The backbone alone over batches of inputs ``(B, 3, H, W)``."""
    for batch in batches:
        model.backbone.layers(batch, [model.backbone.num_blocks])


def _model(backbone: str, trainable: str) -> SimSC:
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
