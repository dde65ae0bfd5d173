"""Where a run starts when the pre-trained weights that it asks for cannot be had."""

from __future__ import annotations

from simsc.errors import DownloadError, WeightsError
from simsc.models.card import Card, packaged_models, same_backbone
from simsc.models.specs import HUB_PREFIX, find_backbone
from simsc.models.weights import fetch_weights
from simsc.training.config import Config


def available_start(config: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration with a start that can be had here, and a sentence where that is another one.

    Where the pre-trained file of a backbone is neither here nor can be fetched, training continues from the packaged
    model with that backbone, if there is one.
    """
    if config.start or config.weights != "default" or config.backbone.startswith(HUB_PREFIX):
        return config, ()
    try:
        fetch_weights(find_backbone(config.backbone))
        return config, ()
    except (WeightsError, DownloadError) as error:
        found = _packaged_with(config)
        if found is None:
            raise
        name, changes, reason = *found, error
    return config.updated(changes), (
        f"The run starts from the packaged model {name}, because the pre-trained weights of {config.backbone} cannot "
        f"be had: {reason}",
    )


def _packaged_with(config: Config) -> tuple[str, dict[str, str]] | None:
    """The packaged model that has a configuration's backbone, and what makes a run start from it.

    That is all of it, or its backbone alone where temperature or head are of another kind.
    """
    for name, path in packaged_models().items():
        design = Card.read(path).design
        if same_backbone(design.backbone, config.backbone):
            same = (design.temperature, design.head) == (config.temperature, config.head)
            return name, {"start": name} if same else {"weights": str(path)}
    return None
