"""Wrong changes that the tests must notice: ``make mutants`` applies each to a copy and runs the tests named beside it.

A change whose old text is not found exactly once is an error: the list must follow the code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """One wrong change: in ``file`` (below ``src/simsc``) ``old`` becomes ``new``; ``tests`` must then fail."""

    what: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = [
    Mutant(
        "points of a mirrored source are not mirrored",
        "matcher/encoded.py",
        "points = flip_points(points, self.size[1]) if self.mirrored else points",
        "points = points + 0",
        "tests/matcher/test_mirror.py",
    ),
    Mutant(
        "the columns of a mirrored flow run the wrong way",
        "matcher/flow.py",
        "-1 if first.mirrored else 1",
        "1",
        "tests/matcher/test_mirror.py",
    ),
    Mutant(
        "cells count that only one side names",
        "matching/mirror.py",
        "best[mutual].clamp(min=0).sum()",
        "best.clamp(min=0).sum()",
        "tests/matcher/test_mirror.py",
    ),
    Mutant(
        "predictions do not say that the mirror was used",
        "evaluation/evaluator.py",
        "mirrored = source.flip != pair.source.flip",
        "mirrored = False",
        "tests/evaluation/test_evaluator.py",
    ),
    Mutant(
        "labels do not say that the mirror was used",
        "transfer/move.py",
        "tuple(name for name, point in points.items() if point.mirrored)",
        "()",
        "tests/transfer/test_transfer.py",
    ),
    Mutant(
        "the twin of a key-point counts where it does not show",
        "experiments/mirror.py",
        "target.present, strict=True) if seen",
        "target.present, strict=True)",
        "tests/experiments/test_mirror.py",
    ),
    Mutant(
        "points without a counterpart are drawn in the target",
        "pictures/matches.py",
        """            if look.status != "none":
                draw_status""",
        """            if True:
                draw_status""",
        "tests/pictures/test_matches.py",
    ),
    Mutant(
        "photographs without a number are never held out",
        "data/photographs.py",
        "_digest(image.path) in self._digests",
        "False",
        "tests/data/test_mixing.py",
    ),
    Mutant(
        "pairs of other splits are formed",
        "training/sampler.py",
        "len(keys) == 2 and keys not in self._apart",
        "len(keys) == 2",
        "tests/training/test_sampler.py",
    ),
    Mutant(
        "images of a group are mirrored one by one",
        "training/sampler.py",
        'self.augment.mirrors(epoch, f"group {group}")',
        "self.augment.mirrors(epoch, one.image.key)",
        "tests/training/test_augment.py",
    ),
    Mutant(
        "an image that is shown again is the same copy",
        "training/augment.py",
        "return epoch + showing * _SHOWINGS_APART",
        "return epoch",
        "tests/training/test_augment.py",
    ),
    Mutant(
        "a cosine that ignores the epoch's part that is done",
        "training/trainer.py",
        "(self.epoch + self.batch / batches) / self.config.epochs",
        "self.epoch / self.config.epochs",
        "tests/training/test_trainer.py",
    ),
    Mutant(
        "the best model is that of the first source",
        "training/trainer.py",
        "mean_over([result.per_image for result in results.values()])",
        "next(iter(results.values())).per_image",
        "tests/training/test_trainer.py",
    ),
    Mutant(
        "one rate whatever learns",
        "training/config.py",
        'self.rate or paper["backbone"]',
        "self.rate or 1e-4",
        "tests/training/test_config.py",
    ),
    Mutant(
        "regulariser on the source's temperature only",
        "training/objective.py",
        "torch.stack([features.beta[batch.source], features.beta[batch.target]])",
        "torch.stack([features.beta[batch.source], features.beta[batch.source]])",
        "tests/training/test_objective.py",
    ),
    Mutant(
        "regulariser not weighted by pairs",
        "training/objective.py",
        "self.config.gamma * regularizer * pairs",
        "self.config.gamma * regularizer",
        "tests/training/test_objective.py",
    ),
    Mutant(
        "disk cache ignores the flip",
        "evaluation/cache.py",
        'hashlib.sha256(b"flip" if ref.flip else b"")',
        'hashlib.sha256(b"")',
        "tests/evaluation/test_evaluator.py",
    ),
    Mutant(
        "cache fingerprint ignores the side length",
        "evaluation/cache.py",
        "{model.head.layers} {side}",
        "{model.head.layers}",
        "tests/evaluation/test_evaluator.py",
    ),
    Mutant(
        "weight decay",
        "training/step.py",
        "torch.optim.Adam(groups, fused=True)",
        "torch.optim.Adam(groups, fused=True, weight_decay=1e-2)",
        "tests/training/test_objective.py",
    ),
    Mutant(
        "validation without the averaged weights",
        "training/trainer.py",
        "        with self.average.applied():\n            self._validate()",
        "        self._validate()",
        "tests/training/test_trainer.py",
    ),
    Mutant(
        "temperature reads normalised features",
        "models/model.py",
        "self.temperature(maps)",
        "self.temperature(torch.nn.functional.normalize(maps, dim=1))",
        "tests/training/test_objective.py",
    ),
    Mutant(
        "temperature module normalises its input",
        "models/temperature.py",
        "at_least_float(features.detach()).mean(dim=(2, 3))",
        "torch.nn.functional.normalize(at_least_float(features.detach())).mean(dim=(2, 3))",
        "tests/models/test_temperature.py",
    ),
    Mutant(
        "temperature sends gradients into the backbone",
        "models/temperature.py",
        "at_least_float(features.detach()).mean(dim=(2, 3))",
        "at_least_float(features).mean(dim=(2, 3))",
        "tests/models/test_temperature.py",
    ),
    Mutant(
        "kernel of another width", "matching/localize.py", "KERNEL_SIGMA = 7.0", "KERNEL_SIGMA = 5.0", "tests/matching"
    ),
    Mutant(
        "evaluation temperature multiplies",
        "matching/localize.py",
        "(kernel_y / beta)",
        "(kernel_y * beta)",
        "tests/matching/test_localize.py",
    ),
    Mutant(
        "flip maps x to W - x",
        "coordinates.py",
        "torch.stack([width - 1 - x, y], dim=-1)",
        "torch.stack([width - x, y], dim=-1)",
        "tests/test_coordinates.py",
    ),
    Mutant(
        "half a pixel lost in a resize",
        "coordinates.py",
        "(points + 0.5) * (new_wh / old_wh) - 0.5",
        "points * (new_wh / old_wh)",
        "tests/test_coordinates.py",
    ),
    Mutant(
        "points on the threshold are wrong",
        "evaluation/pck.py",
        "distance < limit if strict else distance <= limit",
        "distance < limit",
        "tests/evaluation/test_pck.py",
    ),
    Mutant(
        "padding counts into the extent",
        "evaluation/pck.py",
        'points.masked_fill(~mask[..., None], float("-inf")).amax(dim=1)',
        "points.amax(dim=1)",
        "tests/evaluation/test_pck.py",
    ),
    Mutant(
        "Gaussian target of another width",
        "losses.py",
        "offsets, weights = _square_gaussian(region, sigma=kernel // 2)",
        "offsets, weights = _square_gaussian(region, sigma=kernel / 2)",
        "tests/test_losses.py",
    ),
    Mutant(
        "target outside the map counts",
        "losses.py",
        "kept = weights * inside.to(weights.dtype)",
        "kept = weights * torch.ones_like(inside, dtype=weights.dtype)",
        "tests/test_losses.py",
    ),
    Mutant(
        "scores divided by one temperature only",
        "models/heads/plain.py",
        "source.maps, target.maps, source.beta, target.beta, normalize",
        "source.maps, target.maps, source.beta, source.beta, normalize",
        "tests/models/test_model.py",
    ),
    Mutant(
        "matches stay in the network's pixels",
        "evaluation/evaluator.py",
        "return frame.to_original(network).cpu().numpy(), confidence",
        "return network.cpu().numpy(), confidence",
        "tests/evaluation",
    ),
    Mutant(
        "PF-Pascal read as 0-based",
        "data/readers/pfpascal.py",
        'f"{path}: kps") - 1',
        'f"{path}: kps")',
        "tests/data/test_readers.py",
    ),
    Mutant(
        "PF-Willow read as 0-based",
        "data/readers/pfwillow.py",
        "_object(images, path, points - 1)",
        "_object(images, path, points)",
        "tests/data/test_readers.py",
    ),
    Mutant(
        "the same order every epoch",
        "training/sampler.py",
        "generator = np.random.default_rng([self.config.seed, epoch])\n        shown",
        "generator = np.random.default_rng([self.config.seed, 0])\n        shown",
        "tests/training/test_sampler.py",
    ),
    Mutant(
        "the same groups every epoch",
        "training/sampler.py",
        "generator = np.random.default_rng([self.config.seed, epoch])\n        units",
        "generator = np.random.default_rng([self.config.seed, 0])\n        units",
        "tests/training/test_sampler.py",
    ),
    Mutant(
        "resume forgets the optimiser",
        "training/run_folder.py",
        "optimizer.load_state_dict(",
        "dict(",
        "tests/training/test_trainer.py",
    ),
    Mutant(
        "resume repeats the epoch's batches",
        "training/trainer.py",
        "self.feed.epoch(self.epoch, self.batch)",
        "self.feed.epoch(self.epoch, 0)",
        "tests/training/test_trainer.py",
    ),
    Mutant(
        "average keeps nothing",
        "training/step.py",
        "self._values, 1 - kept",
        "self._values, 1.0",
        "tests/training/test_averaging.py",
    ),
    Mutant(
        "statistics of a broken step stay",
        "training/step.py",
        "buffer.copy_(value)",
        "buffer.copy_(buffer)",
        "tests/training/test_trainer.py",
    ),
    Mutant(
        "evaluation ignores its temperature",
        "evaluation/evaluator.py",
        "localize(scores, self.localizer, self.beta_eval)",
        "localize(scores, self.localizer)",
        "tests/evaluation/test_evaluator.py",
    ),
    Mutant(
        "exported matcher ignores the evaluation temperature",
        "export/graphs.py",
        "= trained.localizer, trained.beta_eval",
        "= trained.localizer, 1.0",
        "tests/export/test_export.py",
    ),
    Mutant(
        "matcher ignores the stored evaluation temperature",
        "matcher/matcher.py",
        "trained.beta_eval if beta_eval is None else beta_eval",
        "1.0 if beta_eval is None else beta_eval",
        "tests/matcher/test_matcher.py",
    ),
    Mutant(
        "matcher ignores the stored localiser",
        "matcher/matcher.py",
        "self.localizer = localizer or trained.localizer",
        'self.localizer = localizer or "kernel-soft-argmax"',
        "tests/matcher/test_matcher.py",
    ),
    Mutant(
        "a call's temperature does not reach the mirrored pair",
        "matcher/encoded.py",
        "flipped = None if self.flipped is None else self.flipped.at_temperature(effective)",
        "flipped = self.flipped",
        "tests/matcher/test_matcher.py",
    ),
    Mutant(
        "evaluation at the protocol's side instead of the model's",
        "evaluation/benchmark.py",
        "model.image_size if rules.own_side else None",
        "None",
        "tests/evaluation/test_benchmark.py",
    ),
    Mutant(
        "models of different origin are averaged",
        "models/trained.py",
        "if len(origins) > 1:",
        "if len(origins) > 9:",
        "tests/models/test_trained.py",
    ),
    Mutant(
        "a continued training forgets where it came from",
        "models/trained.py",
        "origin = start.card.origin",
        'origin = ""',
        "tests/models/test_trained.py",
    ),
    Mutant(
        "the plain head reads queries of the wrong pair",
        "models/heads/plain.py",
        "torch.split(found, [len(each) for each in cells])",
        "torch.split(found, [len(each) for each in reversed(cells)])",
        "tests/models/heads/test_heads.py",
    ),
    Mutant(
        "a trained model forgets its input size",
        "models/trained.py",
        "return self.card.image_size or self.network",
        "return self.network",
        "tests/models/test_trained.py tests/matcher/test_matcher.py",
    ),
    Mutant(
        "every process takes the first GPU",
        "distributed.py",
        'torch.device("cuda", mine)',
        'torch.device("cuda", 0)',
        "tests/test_devices.py",
    ),
    Mutant(
        "measurements are kept whatever the convention",
        "experiments/measurements.py",
        '"query", "convention")',
        '"query")',
        "tests/experiments/test_measurements.py",
    ),
    Mutant(
        "a cached image waits for the disk",
        "evaluation/cache.py",
        "durable=False",
        "durable=True",
        "tests/evaluation/test_evaluator.py",
    ),
    Mutant(
        "stride of a v1 ResNet in the 3x3 convolution",
        "models/resnet.py",
        "1 if v1 else stride",
        "stride if v1 else 1",
        "tests/models/test_resnet.py",
    ),
    Mutant(
        "rotary positions with x and y exchanged",
        "models/vit.py",
        'indexing="ij"',
        'indexing="xy"',
        "tests/models/test_vit.py",
    ),
    Mutant(
        "positions of DINOv2 with registers made smaller without antialiasing",
        "models/vit.py",
        "antialias=self.antialias)",
        "antialias=False)",
        "tests/models/test_vit.py",
    ),
    Mutant(
        "a bias for DINOv3's keys",
        "models/vit.py",
        "torch.zeros_like(keys), values]",
        "keys, values]",
        "tests/models/test_vit.py",
    ),
    Mutant(
        "images of any size",
        "models/backbone.py",
        "if any(side % self.stride or side < self.stride for side in image_size):",
        "if any(side < self.stride for side in image_size):",
        "tests/models/test_backbones.py",
    ),
    Mutant(
        "networks that cannot be cut learn as a whole",
        "models/trainable.py",
        'backbone.num_blocks == 0 and trainable not in ("none", "all")',
        "False",
        "tests/models/test_backbones.py",
    ),
]


def main(words: list[str]) -> int:
    """Apply those whose description holds one of the ``words`` (default: all); 0 if every one was noticed."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.what for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "docs", "README.md", "pyproject.toml"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        answers = [_try(mutant, copy) for mutant in chosen]
    bad = [answer for answer in answers if answer != "noticed"]
    print(f"{len(answers) - len(bad)} of {len(answers)} wrong changes were noticed")
    return bool(bad)


def _try(mutant: Mutant, copy: Path) -> str:
    path = copy / "src" / "simsc" / mutant.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(mutant.old) != 1:
        answer = f"ERROR: its old text is there {text.count(mutant.old)} times"
    else:
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        answer = _run(mutant.tests, copy)
        path.write_text(text, encoding="utf-8")
        if answer == "noticed" and _sound(mutant.tests, copy) != "NOT NOTICED":
            answer = "ERROR: its tests fail without the change too"
    print(f"{mutant.file:32} {mutant.what:48} {answer}", flush=True)
    return answer


@cache
def _sound(tests: str, copy: Path) -> str:
    """What tests say about the copy as it is: a failure that was there before has noticed nothing."""
    return _run(tests, copy)


def _run(tests: str, copy: Path) -> str:
    """Run some tests on the copy; only failing tests count, not tests that cannot be collected."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SIMSC_SHARED": os.environ.get("SIMSC_SHARED", str(ROOT.parent / "shared")),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "-x",
        "--no-header",
        "-p",
        "no:cacheprovider",
        *tests.split(),
    ]
    result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    return {0: "NOT NOTICED", 1: "noticed"}.get(result.returncode, f"ERROR: pytest ended with {result.returncode}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
