"""Training: the paper's recipe, resumable at any moment, in one process or many."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from simsc import distributed
from simsc.data.records import unique_images
from simsc.evaluation.cache import choose_cache
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import Rates, Score, score
from simsc.files import Lock, cache_folder, write_json
from simsc.models.card import Best
from simsc.models.trained import Trained
from simsc.training.config import Config
from simsc.training.data import RunData, open_data
from simsc.training.feed import TrainingFeed, Work
from simsc.training.listener import Listener, StopRequest
from simsc.training.monitor import Monitor, StepMeter, TrainingDiverged, gradient_magnitudes
from simsc.training.run_folder import RunFolder, collect_tensors, restore_tensors
from simsc.training.step import AMP_TYPES, Optimization, StepOutcome, WeightAverage
from simsc.training.teacher import Teacher

SELECTION_ALPHA = 0.1


class Trainer:
    """One training run in one folder.

    Args:
        config: what to compute.
        out: folder of the run.
        root: folder of the data set.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        resume: continue the run in ``out``.
        listener: wants to know how it is going.
        notes: sentences on how the configuration came about, for the run's record.
        data: what to train on and measure with, instead of the configuration's sources.

    Attributes:
        notes: the same, and what the data had to say.
    """

    def __init__(
        self,
        config: Config,
        out: str | Path,
        *,
        root: str | Path | None = None,
        device: str = "auto",
        resume: bool = False,
        listener: Listener | None = None,
        notes: Sequence[str] = (),
        data: RunData | None = None,
    ) -> None:
        self.config, self.folder, self.listener = config, RunFolder(Path(out)), listener or Listener()
        self.device = distributed.local_device(device)
        self.data = data or open_data(config, root)
        self.notes = [*notes, *self.data.notes]
        self._build()
        self.epoch, self.batch, self.step = 0, 0, 0
        self.best = Best()
        self._lock = ExitStack()
        with ExitStack() as lock:
            if distributed.is_main():
                lock.enter_context(Lock(self.folder.path, folder=True))
                self.folder.start(config, self._facts(), resume)
            distributed.barrier()
            if resume:
                self._load()
            self._lock = lock.pop_all()  # held until the run has ended
        self._saved_at = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Train to the end; returns (and stores) the summary."""
        with self._lock, StopRequest() as self._stop:
            self._fill_cache()
            if self.step == 0:
                self._validate()
            try:
                while self.epoch < self.config.epochs and not self._out_of_patience():
                    self._train_epoch()
            except TrainingDiverged as diagnosis:
                self._write_summary({"stopped": str(diagnosis)})
                raise
            summary = self._write_summary()
        self.listener.on_end(summary)
        return summary

    def _build(self) -> None:
        config = self.config
        self.trained = Trained.begin(config.to_dict())
        self.model = self.trained.network.to(self.device)
        lay_out_frozen(self.model)
        images = self.data.images()
        cache = choose_cache(
            "none" if config.endless else config.cache,
            config.cache_dtype,
            self.model,
            config.image_size,
            len(images) * max(1, config.variants * (2 if config.flip or config.flip_alone else 1)),
            cache_folder() / "trunk",
            shared=distributed.world_size() > 1,
        )
        self.encoder = ImageEncoder(self.model, find_protocol("paper-256", config.image_size), cache)
        precision = "bf16" if config.amp == "bf16" else "float32"
        teacher = Teacher(Trained.open(config.teacher), self.device, precision) if config.teacher else None
        self.feed = TrainingFeed(self.data.pairing, self.encoder, AMP_TYPES.get(config.amp), teacher)
        self.image_size = self.encoder.frame(images[0]).canvas
        self.optimization = Optimization(self.model, config, self.device)
        self.average = WeightAverage(self.model, config.average)
        cells = math.prod(self.model.backbone.grid_size(self.image_size))
        self.monitor = Monitor.for_temperature(config.temperature, cells, config.normalize)
        self.meter = StepMeter()

    def _facts(self) -> dict[str, Any]:
        return {
            "seed": self.config.seed,
            "data": self.data.facts(),
            "notes": self.notes,
            "trainable_parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
            "processes": distributed.world_size(),
        }

    def _fill_cache(self) -> None:
        """Compute this process's part of the trunk cache before the first step."""
        cache = self.encoder.cache
        if cache is None:
            return
        images = [*self.data.pairing.all_images(), *self.data.validation_images()]
        images = list({ref.key: ref for ref in images}.values())
        if distributed.world_size() > 1 and cache.folder is not None:
            images = list(distributed.my_share(images))  # the others' states are read from their files
        elif distributed.world_size() > 1:
            shares = [distributed.my_share(one.pairs) for one in self.data.validations]
            mine = unique_images([pair for share in shares for pair in share])
            images = list({ref.key: ref for ref in [*self.feed.images(self.epoch), *mine]}.values())
        for done in self.encoder.fill_cache(images):
            self.listener.on_cache(done, len(images))
            if self._stop.wanted and distributed.world_size() == 1:  # others would wait for this one's part for ever
                raise KeyboardInterrupt
        distributed.barrier()

    def _train_epoch(self) -> None:
        self.model.train()
        batches = len(self.feed.batches(self.epoch))
        self.listener.on_epoch(self.epoch, self.config.epochs, batches, self.batch)
        for work in self.feed.epoch(self.epoch, self.batch):
            self._train_step(work, (self.epoch + self.batch / batches) / self.config.epochs)
            if self.step % self.config.log_every == 0 or self.batch == batches:
                self._log()
            stop, save = self._requests()
            if stop or save:
                self._save()
            if stop:
                raise KeyboardInterrupt
        self.epoch, self.batch = self.epoch + 1, 0
        with self.average.applied():
            self._validate()
        self._save()

    def _train_step(self, work: Work, progress: float) -> None:
        outcome = self.optimization.step(self.step, self.image_size, work, progress)
        self._watch(outcome, work.weight)
        self.batch += 1
        self.step += 1
        if not outcome.broken:
            self.average.update(self.step)
        self.listener.on_batch(self.batch)

    def _watch(self, outcome: StepOutcome, weight: float) -> None:
        """Tell the monitor what all processes together saw, so that all of them stop or none."""
        if outcome.broken:
            self.monitor.broken_step(self.step, outcome.broken)
            return
        self.meter.add(outcome.parts, weight)
        parts = outcome.parts
        seen = torch.stack([parts.cross_entropy, parts.temperature, parts.pairs, parts.feature_norm]).cpu().double()
        entropy, temperature, pairs, norm = distributed.sum_over_processes(seen * weight).tolist()
        self.monitor.good_step(self.step, entropy / pairs, temperature / pairs, norm)

    def _log(self) -> None:
        record: dict[str, Any] = {"step": self.step, "epoch": self.epoch, **self.meter.means()}
        record["rate"] = self.optimization.rate
        record["skipped"] = self.monitor.broken_total
        if self.config.track_gradients and "loss" in record:  # not those of a step that was skipped
            record["gradients"] = gradient_magnitudes(self.model)
        self.meter = StepMeter()
        if distributed.is_main():
            self.folder.append(record)
        if "loss" in record:
            self.listener.on_step(record)

    def _validate(self) -> None:
        """PCK on the validation pairs of every source; keeps the best model by the mean over sources, or the last."""
        self.model.eval()
        evaluator = Evaluator(self.encoder, self.config.localizer, self.config.beta_eval)
        results: dict[str, Score] = {}
        precision = AMP_TYPES.get(self.config.amp)
        for one in self.data.validations:
            with torch.autocast(self.device.type, dtype=precision, enabled=precision is not None):
                predictions = distributed.gather_lists(evaluator.predict(distributed.my_share(one.pairs)))
            results[one.title] = score(predictions, self.encoder.protocol, one.threshold)
        pck = mean_over([result.per_image for result in results.values()])
        rounded = _rounded(pck)
        record: dict[str, Any] = {
            "step": self.step,
            "epoch": self.epoch,
            "val": rounded,
            "val_temperature": sum(result.temperature.mean for result in results.values()) / len(results),
        }
        if len(results) > 1:
            record["val_sources"] = {title: _rounded(result.per_image) for title, result in results.items()}
        better = pck[SELECTION_ALPHA] > self.best.pck or self.config.keep == "last"
        if better:
            self.best = Best(pck[SELECTION_ALPHA], self.epoch, rounded)
        if distributed.is_main():
            self.folder.append(record)
            if better:
                self.trained.described(best=self.best).save(self.folder.best)
        self.listener.on_validation(record, better)

    def _out_of_patience(self) -> bool:
        return bool(self.config.patience) and self.epoch - self.best.epoch >= self.config.patience

    def _requests(self) -> tuple[bool, bool]:
        """Whether any process was asked to stop, and whether the main one's clock says that it is time to save."""
        minutes = self.config.checkpoint_minutes
        due = bool(minutes) and time.monotonic() - self._saved_at > 60 * minutes
        return distributed.any_process(self._stop.wanted), distributed.main_says(due)

    def _save(self) -> None:
        """Write the state to resume from."""
        meter = self.meter.state()  # of all processes
        if distributed.is_main():
            state = {
                "epoch": self.epoch,
                "batch": self.batch,
                "step": self.step,
                "best": asdict(self.best),
                "monitor": self.monitor.state_dict(),
                "scaler": self.optimization.scaler.state_dict(),
                "meter": meter,
            }
            tensors = collect_tensors(self.model, self.optimization.optimizer, self.average)
            self.folder.save_state(tensors, state)
        self._saved_at = time.monotonic()

    def _load(self) -> None:
        """Continue from the saved state, or from the beginning where there is none yet."""
        exists = self.folder.last.exists()
        if exists:
            tensors, state = self.folder.load_state()
            try:
                self._restore(tensors, state)
            except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
                raise self.folder.cannot_resume(error) from None
        if distributed.is_main():
            self.folder.rewind(self.step, self.epoch if exists else -1)

    def _restore(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        restore_tensors(tensors, self.model, self.optimization.optimizer, self.average)
        self.epoch, self.batch, self.step = (int(state[name]) for name in ("epoch", "batch", "step"))
        self.best = Best(**state["best"])
        self.monitor.load_state_dict(state["monitor"])
        if state["scaler"]:
            self.optimization.scaler.load_state_dict(state["scaler"])
        self.meter = StepMeter(state.get("meter") if distributed.is_main() else None)

    def _write_summary(self, remarks: dict[str, Any] | None = None) -> dict[str, Any]:
        summary = {
            "epochs": self.epoch,
            "steps": self.step,
            "best_epoch": self.best.epoch,
            "val": self.best.val,
            "skipped_steps": self.monitor.broken_total,
            **(remarks or {}),
        }
        if distributed.is_main():
            write_json(self.folder.result, summary)
        return summary


def lay_out_frozen(model: nn.Module) -> None:
    """Lay kernels that do not learn out channels last: a trunk of convolutions then takes half the time on a CPU.

    Those that learn stay as they are, and so does what is saved of them.
    """
    for parameter in model.parameters():
        if not parameter.requires_grad and parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def mean_over(results: Sequence[Rates]) -> dict[float, float]:
    """The mean of PCKs by their threshold.

    >>> mean_over([{0.1: 50.0}, {0.1: 60.0}])
    {0.1: 55.0}
    """
    return {alpha: sum(result[alpha] for result in results) / len(results) for alpha in results[0]}


def _rounded(pck: Rates) -> dict[str, float]:
    return {str(alpha): round(value, 4) for alpha, value in pck.items()}
