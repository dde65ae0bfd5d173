"""Ready models by name: packaged ones, files, run folders, and backbones as they were pre-trained."""

from __future__ import annotations

from pathlib import Path

from simsc.errors import ConfigError, WeightsError, unknown_name
from simsc.models.checkpoints import build_model, load_model
from simsc.models.model import SimSC
from simsc.models.registry import HUB_PREFIX, find_backbone, list_backbones

DEFAULT = "simsc-resnet50"
PRETRAINED_TEMPERATURE = 0.03
"""Effective temperature for features that have not learned one; the paper's models settle close to it."""

_SUFFIX = ".safetensors"
_BEST = f"best{_SUFFIX}"


def open_model(name: str | Path | None = None) -> SimSC:
    """A model in evaluation mode.

    Args:
        name: None for the packaged default; the name of a packaged model; a ``.safetensors`` file; a run folder
            (its best checkpoint); or the name of a backbone, whose pre-trained features are then matched at the
            constant temperature :data:`PRETRAINED_TEMPERATURE`.
    """
    path = find_model(name)
    if path is not None:
        return load_model(path)
    description = {"backbone": str(name), "temperature": f"fixed:{PRETRAINED_TEMPERATURE}", "trainable": "none"}
    return build_model(description).eval()


def find_model(name: str | Path | None = None) -> Path | None:
    """The model file that a name stands for; None if it names a backbone."""
    if name is None:
        return _packaged_default()
    path, packaged = Path(name), packaged_models()
    if str(name) in packaged:
        return packaged[str(name)]
    if path.is_dir():
        return _best_of(path)
    if path.suffix == _SUFFIX or path.is_file():
        return path
    backbones = [alias for entry in map(find_backbone, list_backbones()) for alias in (entry.name, *entry.aliases)]
    if str(name).startswith(HUB_PREFIX) or str(name) in backbones:
        return None
    known = unknown_name("model", str(name), [*packaged, *backbones])
    raise ConfigError(f"{known}, or the path of a model file or run folder")


def packaged_models() -> dict[str, Path]:
    """The models that come with the package, by name."""
    return {path.stem: path for path in sorted(packaged_folder().glob(f"*{_SUFFIX}"))}


def packaged_folder() -> Path:
    """Folder of the packaged models."""
    return Path(__file__).parent / "packaged"


def _packaged_default() -> Path:
    packaged = packaged_models()
    if DEFAULT not in packaged:
        raise WeightsError(
            f"this installation holds no packaged model {DEFAULT}; name a model file, a run folder, or a backbone "
            "such as resnet50 to match its pre-trained features"
        )
    return packaged[DEFAULT]


def _best_of(folder: Path) -> Path:
    if not (folder / _BEST).is_file():
        raise WeightsError(f"{folder}: holds no {_BEST}; is it a run folder of `simsc train`, and is an epoch done?")
    return folder / _BEST
