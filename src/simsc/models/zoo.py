"""Ready models by name: packaged ones, files, run folders, and backbones as they were pre-trained."""

from __future__ import annotations

from pathlib import Path

from simsc.errors import ConfigError, WeightsError, unknown_name
from simsc.models.checkpoints import build_model, load_model
from simsc.models.heads import parse_head
from simsc.models.model import SimSC
from simsc.models.specs import HUB_PREFIX, backbone_names
from simsc.models.temperature import PRETRAINED_TEMPERATURE

DEFAULT = "simsc-resnet50"
HEAD_MARK = "+"
"""Stands between a backbone and its head: ``resnet50+hpf``."""

_SUFFIX = ".safetensors"
_BEST = f"best{_SUFFIX}"


def open_model(name: str | Path | None = None) -> SimSC:
    """A model in evaluation mode.

    Args:
        name: None for the packaged default; the name of a packaged model; a ``.safetensors`` file; a run folder
            (its best checkpoint); or the name of a backbone, whose pre-trained features are then matched at the
            constant temperature :data:`PRETRAINED_TEMPERATURE`. With a head, as in ``resnet50+hpf`` or
            ``resnet50+scot:layers=7-9-11``, it is the temperature that suits that head.
    """
    path = find_model(name)
    return load_model(path) if path is not None else _pretrained(*split_head(str(name)))


def find_model(name: str | Path | None = None) -> Path | None:
    """The model file that a name stands for; None if it names a backbone, with or without a head."""
    if name is None:
        return _packaged_default()
    if (path := _trained(str(name))) is not None:
        return path
    backbone, head = split_head(str(name))
    if not _is_backbone(backbone):
        raise ConfigError(_refusal(backbone))
    parse_head(head)  # a misspelt head is refused before anything is loaded
    return None


def split_head(name: str) -> tuple[str, str]:
    """Backbone and head of a name.

    >>> split_head("resnet50+scot:layers=7-9-11"), split_head("resnet50")
    (('resnet50', 'scot:layers=7-9-11'), ('resnet50', 'none'))
    """
    backbone, mark, head = name.partition(HEAD_MARK)
    return backbone, head if mark else "none"


def packaged_models() -> dict[str, Path]:
    """The models that come with the package, by name."""
    return {path.stem: path for path in sorted(packaged_folder().glob(f"*{_SUFFIX}"))}


def packaged_folder() -> Path:
    """Folder of the packaged models."""
    return Path(__file__).parent / "packaged"


def _pretrained(backbone: str, head: str) -> SimSC:
    fixed = f"fixed:{PRETRAINED_TEMPERATURE}"
    model = build_model({"backbone": backbone, "head": head, "temperature": fixed, "trainable": "none"})
    if model.head is not None:
        model.set_temperature(f"fixed:{model.head.usual_temperature}")
    return model.eval()


def _trained(name: str) -> Path | None:
    """The file of a packaged model, model file or run folder; None if the name is none of these."""
    path, packaged = Path(name), packaged_models()
    if name in packaged:
        return packaged[name]
    if path.is_dir():
        return _best_of(path)
    return path if path.suffix == _SUFFIX or path.is_file() else None


def _is_backbone(name: str) -> bool:
    return name.startswith(HUB_PREFIX) or name in backbone_names()


def _refusal(name: str) -> str:
    """Why a name, of which a head was split off, cannot be opened: it is not a backbone."""
    if _trained(name) is not None:
        return (
            f"{name} is a trained model, which keeps the head it was trained with; "
            f"a head can only be added to a backbone, as in resnet50{HEAD_MARK}hpf"
        )
    known = unknown_name("model", name, [*packaged_models(), *backbone_names()])
    return f"{known}, such a backbone with a head (resnet50{HEAD_MARK}hpf), or the path of a model file or run folder"


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
