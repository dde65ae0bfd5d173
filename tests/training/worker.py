"""Trains or evaluates in a process of its own: run by the tests, alone, killed, or in a group of two."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

from simsc import distributed
from simsc.evaluation.benchmark import evaluate_model
from simsc.models.trained import Trained
from simsc.training.config import Config
from simsc.training.listener import Listener
from simsc.training.trainer import Trainer


class Slow(Listener):
    """Gives the parent time to kill this process in the middle of an epoch."""

    def on_batch(self, done: int) -> None:
        time.sleep(float(os.environ.get("TEST_SLEEP", "0")))


class Dying(Listener):
    """Dies without a word, as a machine does."""

    def on_batch(self, done: int) -> None:
        if distributed.rank() == 1:
            os._exit(7)


def main(task: str, config: str, root: str, out: str) -> None:
    torch.set_num_threads(1)
    with distributed.process_group(timeout_minutes=2):
        if task == "evaluate":
            model = Trained.open(Path(out) / "best.safetensors")
            found = evaluate_model(model, "pairs", root, "test", "paper-256@64")
            if distributed.is_main():
                (Path(out) / f"evaluated-{distributed.world_size()}.json").write_text(json.dumps(found.to_dict()))
            return
        listener = Dying() if task == "die" else Slow()
        resume = task == "resume"
        Trainer(Config(**json.loads(config)), out, root=root, resume=resume, listener=listener).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
