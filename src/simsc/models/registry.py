"""The backbones we know by name: where they come from, what they expect, what they give. Imports no torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simsc.errors import ConfigError, unknown_name

Triple = tuple[float, float, float]
IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)
HUB_PREFIX = "hf:"


@dataclass(frozen=True)
class Source:
    """Where the weights of a backbone come from.

    Attributes:
        file: name of the file in the weights folder.
        url: direct address of the file; None if it has no public one.
        page: where a person can get the file when there is no direct address.
        sha256: hexadecimal digits of the file's SHA-256, all or the first ones; None if unpublished.
        hub: repository on the Hugging Face hub with the same weights.
    """

    file: str
    url: str | None = None
    page: str | None = None
    sha256: str | None = None
    hub: str | None = None

    @property
    def address(self) -> str:
        """Where to look for the file, for people."""
        return self.url or self.page or "no public address"


@dataclass(frozen=True)
class BackboneSpec:
    """What one entry of the registry knows.

    Attributes:
        name: ``architecture.pretraining``.
        family: which wrapper builds it; the ``model_type`` of ``transformers``.
        channels: C of its feature map ``(B, C, h, w)``.
        stride: image pixels per cell.
        blocks: number of residual or transformer blocks.
        licence: of the weights.
        source: where the weights come from.
        settings: arguments of the configuration class of ``transformers``.
        input_size: default side of the square input, a multiple of the stride.
        mean, std: normalisation of RGB in ``[0, 1]``.
        aliases: short names.
    """

    name: str
    family: str
    channels: int
    stride: int
    blocks: int
    licence: str
    source: Source
    settings: Mapping[str, Any] = field(default_factory=dict)
    input_size: int = 256
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD
    aliases: tuple[str, ...] = ()


def list_backbones(pattern: str = "*") -> list[str]:
    """Names of the registry, in its order, that match a shell pattern (by name or alias).

    >>> list_backbones("resnet50*")
    ['resnet50.tv_in1k', 'resnet50.v1_in1k']
    """
    return [spec.name for spec in _entries() if fnmatch.filter((spec.name, *spec.aliases), pattern)]


def find_backbone(name: str) -> BackboneSpec:
    """The entry of a name or alias.

    >>> find_backbone("ibot-vitb16").name
    'vit_base_patch16.ibot'
    """
    names = {alias: spec for spec in _entries() for alias in (spec.name, *spec.aliases)}
    if name in names:
        return names[name]
    if name.startswith(HUB_PREFIX):
        raise ConfigError(f"'{name}' is not in the registry: a hub backbone describes itself once it is built")
    raise ConfigError(unknown_name("backbone", name, names) + f", or {HUB_PREFIX}<repository> of the hub")


def _entries() -> tuple[BackboneSpec, ...]:
    from simsc.models.entries import ENTRIES  # the table needs the classes above

    return ENTRIES
