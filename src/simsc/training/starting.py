"""The model a run begins with."""

from __future__ import annotations

from simsc.errors import ConfigError
from simsc.models.checkpoints import build_model
from simsc.models.model import SimSC
from simsc.models.zoo import open_model
from simsc.training.config import Config


def starting_model(config: Config) -> SimSC:
    """A pre-trained backbone with a fresh temperature, or all weights of the trained model ``config.start``."""
    if not config.start:
        return build_model(config.to_dict(), config.weights, config.seed)
    model = build_model(config.to_dict(), None, config.seed)
    try:
        model.load_state_dict(open_model(config.start).state_dict())
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ConfigError(f"start = {config.start}: it is not of this configuration's kind ({reason})") from None
    return model
