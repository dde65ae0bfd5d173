"""Training: the paper's recipe, resumable at any moment, in one process or many."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simsc.data.records import ImageRef, Pair
from simsc.data.registry import data_fingerprint, dataset_info, load_pairs
from simsc.engine import distributed
from simsc.engine.augment import augment_pair
from simsc.engine.batches import PairBatch, collate
from simsc.engine.cache import choose_cache
from simsc.engine.config import Config
from simsc.engine.encoder import ImageEncoder
from simsc.engine.evaluate import Evaluator
from simsc.engine.listener import Listener
from simsc.engine.meters import StepMeter, gradient_magnitudes
from simsc.engine.monitor import Monitor
from simsc.engine.objective import LossParts, PairObjective
from simsc.engine.prefetch import prefetch
from simsc.engine.run_folder import RunFolder
from simsc.engine.sampler import epoch_batches
from simsc.engine.scoring import score
from simsc.errors import ConfigError
from simsc.files import cache_folder, write_json
from simsc.metrics.protocols import find_protocol
from simsc.models.checkpoints import build_model, save_model
from simsc.models.model import SimSC, State
from simsc.models.temperature import learns

SELECTION_ALPHA = 0.1


class Trainer:
    """One training run in one folder."""

    def __init__(
        self,
        config: Config,
        out: str | Path,
        *,
        root: str | Path | None = None,
        device: str = "auto",
        resume: bool = False,
        listener: Listener | None = None,
    ) -> None:
        self.config, self.folder, self.listener = config, RunFolder(Path(out)), listener or Listener()
        self.device = distributed.local_device(device)
        pairs = load_pairs(config.data, root, config.train_split)
        self.train_pairs = pairs[: config.max_pairs or None]
        self.val_pairs = load_pairs(config.data, root, config.val_split)
        self.threshold = dataset_info(config.data).threshold
        self._build()
        if distributed.is_main():
            self.folder.start(config, self._facts(), resume)
        distributed.barrier()
        self.epoch, self.batch, self.step = 0, 0, 0
        self.best: dict[str, Any] = {"pck": -1.0, "epoch": 0}
        if resume and self.folder.last.exists():
            self._load()
        self._saved_at = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Train to the end; returns (and stores) the summary."""
        self._fill_cache()
        if self.step == 0 and self.epoch == 0:
            self._validate()
        try:
            while self.epoch < self.config.epochs and not self._out_of_patience():
                self._train_epoch()
        except KeyboardInterrupt:
            self._save()
            raise
        return self._finish()

    def _build(self) -> None:
        config = self.config
        self.model = starting_model(config).to(self.device)
        self.objective: nn.Module = PairObjective(self.model, config)
        groups = self.model.parameter_groups(config.rate, config.temperature_rate, config.head_rate)
        self.optimizer = torch.optim.Adam(groups) if groups else None
        self.base_rates = [group["lr"] for group in groups]
        if distributed.world_size() > 1:
            self.objective = nn.parallel.DistributedDataParallel(
                self.objective, broadcast_buffers=not config.freeze_batchnorm
            )
        if config.compile:
            self.objective = torch.compile(self.objective)  # type: ignore[assignment]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.amp == "fp16")
        images = _unique_images([*self.train_pairs, *self.val_pairs])
        mode = "none" if config.augments else config.cache
        cache = choose_cache(
            mode, config.cache_dtype, self.model, config.image_size, len(images), cache_folder() / "trunk"
        )
        protocol = find_protocol("paper-256", config.image_size)
        self.encoder = ImageEncoder(self.model, protocol, cache)
        cells = math.prod(self.model.backbone.grid_size((config.image_size, config.image_size)))
        self.monitor = Monitor(cells, learns(config.temperature))

    def _facts(self) -> dict[str, Any]:
        return {
            "seed": self.config.seed,
            "data": {
                "train": {"pairs": len(self.train_pairs), "fingerprint": data_fingerprint(self.train_pairs)},
                "val": {"pairs": len(self.val_pairs), "fingerprint": data_fingerprint(self.val_pairs)},
            },
            "trainable_parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
            "processes": distributed.world_size(),
        }

    def _fill_cache(self) -> None:
        """Compute this process's part of the trunk cache before the first step."""
        if self.encoder.cache is None:
            return
        mine: list[Pair] = [*distributed.my_share(self.val_pairs)]
        for batch in epoch_batches(self.train_pairs, self.config.batch_size, self.config.seed, self.epoch):
            mine.extend(self.train_pairs[index] for index in distributed.my_share(batch))
        images = _unique_images(mine if distributed.world_size() > 1 else [*self.train_pairs, *self.val_pairs])
        for done in self.encoder.fill_cache(images):
            self.listener.on_cache(done, len(images))

    def _train_epoch(self) -> None:
        config = self.config
        self.model.train()
        batches = epoch_batches(self.train_pairs, config.batch_size, config.seed, self.epoch, config.share_images)
        self.listener.on_epoch(self.epoch, config.epochs, len(batches), self.batch)
        meter = StepMeter()
        for batch, state, weight in prefetch(self._work(batches[self.batch :])):
            parts = self._train_step(batch, state, weight, len(batches[self.batch]))
            self.batch += 1
            self.step += 1
            meter.add(parts, weight)
            self.listener.on_batch(self.batch)
            if self.step % config.log_every == 0 or self.batch == len(batches):
                self._log(meter)
                meter = StepMeter()
            if config.checkpoint_minutes and time.monotonic() - self._saved_at > 60 * config.checkpoint_minutes:
                self._save()
        self.epoch, self.batch = self.epoch + 1, 0
        self._validate()
        self._save()

    def _work(self, batches: Sequence[Sequence[int]]) -> Iterator[Any]:
        """Jobs that prepare this process's share of each batch; run ahead of the computation."""
        for indices in batches:
            share = distributed.my_share(indices)
            # A process without a pair still takes part in the reduction, with weight 0.
            yield lambda chosen=(share or indices[:1]), weight=float(bool(share)): (*self._prepare(chosen), weight)

    def _prepare(self, indices: Sequence[int]) -> tuple[PairBatch, State]:
        pairs = [self.train_pairs[index] for index in indices]
        if self.config.augments:
            pairs = [augment_pair(p, self.config, self.epoch, i) for p, i in zip(pairs, indices, strict=True)]
        batch = collate(pairs, self.encoder.frame)
        return batch.to(self.device), self.encoder.states(batch.images)

    def _train_step(self, batch: PairBatch, state: State, weight: float, global_pairs: int) -> LossParts:
        assert self.optimizer is not None
        torch.manual_seed(hash((self.config.seed, self.step)) % 2**63)  # dropout, the same after a resume
        self._set_rates()
        side = self.config.image_size
        with torch.autocast(self.device.type, dtype=self._amp_dtype(), enabled=self.config.amp != "none"):
            parts: LossParts = self.objective(state, (side, side), batch)
        # DDP averages over processes; this makes it the mean over all pairs of the global batch.
        loss = parts.total * weight * distributed.world_size() / global_pairs
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(
            [p for group in self.optimizer.param_groups for p in group["params"]], self.config.clip or math.inf
        )
        if torch.isfinite(norm):
            self.scaler.step(self.optimizer)
        self.scaler.update()
        self._watch(parts, loss, norm)
        return parts

    def _watch(self, parts: LossParts, loss: Tensor, norm: Tensor) -> None:
        if not torch.isfinite(norm):
            self.monitor.broken_step(self.step, "gradient" if torch.isfinite(loss) else "loss")
            return
        pairs = float(parts.pairs)
        entropy, temperature = float(parts.cross_entropy) / pairs, float(parts.temperature) / pairs
        self.monitor.good_step(self.step, entropy, temperature, float(parts.feature_norm))

    def _set_rates(self) -> None:
        assert self.optimizer is not None
        factor = min(1.0, (self.step + 1) / self.config.warmup) if self.config.warmup else 1.0
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * factor

    def _amp_dtype(self) -> torch.dtype:
        return torch.float16 if self.config.amp == "fp16" else torch.bfloat16

    def _log(self, meter: StepMeter) -> None:
        record: dict[str, Any] = {"step": self.step, "epoch": self.epoch, **meter.means()}
        assert self.optimizer is not None
        record["rate"] = self.optimizer.param_groups[0]["lr"]
        record["skipped"] = self.monitor.broken_total
        if self.config.track_gradients:
            record["gradients"] = gradient_magnitudes(self.model)
        if distributed.is_main():
            self.folder.append(record)
        self.listener.on_step(record)

    @torch.inference_mode()
    def _validate(self) -> None:
        """PCK on the validation split; keeps the best model."""
        self.model.eval()
        evaluator = Evaluator(self.encoder, self.config.localizer, self.config.beta_eval)
        mine = list(distributed.my_share(self.val_pairs))
        predictions = distributed.gather_lists(evaluator.predict(mine))
        result = score(predictions, self.encoder.protocol, self.threshold)
        pck = result["per_image"]
        record = {
            "step": self.step,
            "epoch": self.epoch,
            "val": {str(alpha): round(value, 4) for alpha, value in pck.items()},
            "val_temperature": result["temperature"]["mean"],
        }
        better = pck[SELECTION_ALPHA] > self.best["pck"]
        if better:
            self.best = {"pck": pck[SELECTION_ALPHA], "epoch": self.epoch, "val": record["val"]}
        if distributed.is_main():
            self.folder.append(record)
            if better:
                save_model(self.model, self.folder.best, {**self.config.to_dict(), "best": self.best})
        self.listener.on_validation(record, better)

    def _out_of_patience(self) -> bool:
        return bool(self.config.patience) and self.epoch - self.best["epoch"] >= self.config.patience

    def _save(self) -> None:
        """Write the state to resume from."""
        if distributed.is_main() and self.optimizer is not None:
            learning = {name for name, p in self.model.named_parameters() if p.requires_grad}
            buffers = {name for name, _ in self.model.named_buffers()}
            tensors = {
                f"model/{name}": tensor.detach().clone()
                for name, tensor in self.model.state_dict().items()
                if name in learning or name in buffers
            }
            for index, values in self.optimizer.state_dict()["state"].items():
                tensors.update({f"optimizer/{index}/{key}": value.clone() for key, value in values.items()})
            state = {
                "epoch": self.epoch,
                "batch": self.batch,
                "step": self.step,
                "best": self.best,
                "monitor": self.monitor.state_dict(),
                "scaler": self.scaler.state_dict(),
            }
            self.folder.save_state(tensors, state)
        self._saved_at = time.monotonic()

    def _load(self) -> None:
        tensors, state = self.folder.load_state()
        weights = {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}
        self.model.load_state_dict(weights, strict=False)
        if self.optimizer is not None:
            saved: dict[int, dict[str, Tensor]] = {}
            for name, value in tensors.items():
                if name.startswith("optimizer/"):
                    _, index, key = name.split("/")
                    saved.setdefault(int(index), {})[key] = value
            whole = self.optimizer.state_dict()
            self.optimizer.load_state_dict({"state": saved, "param_groups": whole["param_groups"]})
        self.epoch, self.batch, self.step = state["epoch"], state["batch"], state["step"]
        self.best = state["best"]
        self.monitor.load_state_dict(state["monitor"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        if distributed.is_main():
            self.folder.rewind(self.step)

    def _finish(self) -> dict[str, Any]:
        summary = {
            "epochs": self.epoch,
            "steps": self.step,
            "best_epoch": self.best["epoch"],
            "val": self.best.get("val", {}),
            "skipped_steps": self.monitor.broken_total,
        }
        if distributed.is_main():
            write_json(self.folder.result, summary)
        self.listener.on_end(summary)
        return summary


def starting_model(config: Config) -> SimSC:
    """The model a run begins with: a pre-trained backbone, or all weights of the trained model ``start``."""
    if not config.start:
        return build_model(config.to_dict(), config.weights, config.seed)
    from simsc.models.zoo import open_model

    model = build_model(config.to_dict(), None, config.seed)
    try:
        model.load_state_dict(open_model(config.start).state_dict())
    except RuntimeError as error:
        raise ConfigError(
            f"start = {config.start}: that model is of another kind than this configuration: {error}"
        ) from None
    return model


def _unique_images(pairs: Sequence[Pair]) -> list[ImageRef]:
    return list({ref.key: ref for pair in pairs for ref in (pair.source, pair.target)}.values())
