"""Where weights come from, and how a file gets into a network. No pickle is ever executed."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from simsc.errors import WeightsError
from simsc.files import cache_folder, shared_folder
from simsc.models.backbones import Backbone
from simsc.models.keymaps import KEY_MAPS
from simsc.models.registry import BackboneSpec


def weights_folder() -> Path:
    """Where downloaded weights live, and where files can be put by hand."""
    return cache_folder() / "weights"


def find_weights(spec: BackboneSpec) -> Path | None:
    """The file of an entry on this machine, or None."""
    folders = (weights_folder(), shared_folder() / "weights")
    return next(
        (folder / spec.source.file for folder in folders if (folder / spec.source.file).is_file()), None
    )


def load_weights(backbone: Backbone, path: Path | None = None) -> None:
    """Load a file, by default the registry's, into a backbone."""
    path = path or find_weights(backbone.spec)
    if path is None:
        raise WeightsError(f"no weights for {backbone.spec.name}")
    rename = KEY_MAPS[backbone.spec.source.layout]
    renamed = {ours: value for key, value in read_tensors(path).items() if (ours := rename(key)) is not None}
    own = backbone.state_dict()
    missing = [key for key in own if key not in renamed and not key.endswith("num_batches_tracked")]
    if missing:
        raise WeightsError(f"{path} lacks {missing[:3]}")
    backbone.load_state_dict(renamed, strict=False)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file by name."""
    from safetensors.torch import load_file

    return load_file(path)
