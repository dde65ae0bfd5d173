"""Named evaluation protocols: published figures mix several, so every figure here carries the name of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from simsc.coordinates import Convention, Size
from simsc.errors import ConfigError, unknown_name
from simsc.frames import Frame, aspect_frame, padded_frame, square_frame
from simsc.registry import Registry


@dataclass(frozen=True)
class Protocol:
    """How images enter the network and where distances are measured.

    Attributes:
        name: what a figure measured this way is labelled with.
        description: one sentence.
        view: ``square`` (resized, aspect not kept), ``original`` (sides rounded to the stride) or ``pad`` (aspect
            kept, centred on a square).
        side: side of the square; unused for ``original``.
        measure: frame of distances, boxes and extents: the network's ``input``, or the ``original`` image.
        swap: match target to source, threshold from the source's annotation.
        strict: a point is correct if its distance is ``<`` the threshold, instead of ``<=``.
        upsample: up-sample target features to the image and take the best pixel, instead of a localiser.
        own_side: a model that was trained at another side sees images at its own; distances are measured at ``side``.
    """

    name: str
    description: str
    view: Literal["square", "original", "pad"] = "square"
    side: int = 256
    measure: Literal["input", "original"] = "input"
    swap: bool = False
    strict: bool = False
    upsample: bool = False
    own_side: bool = False

    def frame(self, original: Size, multiple: int = 1, convention: Convention = "center") -> Frame:
        """The network's view of an image of that size, its sides rounded to multiples of ``multiple``.

        >>> PROTOCOLS["paper-256"].frame((300, 400), multiple=14).canvas
        (252, 252)
        """
        if self.view == "original":
            return aspect_frame(original, None, multiple, convention)
        build = square_frame if self.view == "square" else padded_frame
        return build(original, max(round(self.side / multiple), 1) * multiple, convention)


PROTOCOLS: Registry[Protocol] = Registry("protocol")
for _protocol in (
    Protocol(
        "paper-256",
        "both images resized to 256x256; distances, boxes and extents measured in that square",
        own_side=True,
    ),
    Protocol(
        "square-256",
        "both images resized to 256x256; distances in original pixels",
        measure="original",
        own_side=True,
    ),
    Protocol("original", "images at their own size; distances in original pixels", "original", measure="original"),
    Protocol(
        "cats-256",
        "as paper-256, but matched target to source with the source's threshold",
        swap=True,
        own_side=True,
    ),
    Protocol("geoaware", "longer side 840, padded to a square; distance < threshold", "pad", 840, strict=True),
    Protocol(
        "dift",
        "768x768 input, features up-sampled to the image, best pixel; distances in original pixels",
        side=768,
        measure="original",
        upsample=True,
    ),
):
    PROTOCOLS.add(_protocol.name, _protocol)


def find_protocol(name: str, side: int | None = None) -> Protocol:
    """The protocol of that name, with another side if given (its name then says so), at which images are seen too.

    >>> find_protocol("geoaware", side=448).name
    'geoaware@448'
    """
    base, _, named_side = name.partition("@")
    if base not in PROTOCOLS or (named_side and not named_side.isdigit()):
        raise ConfigError(unknown_name("protocol", name, PROTOCOLS))
    side = side or (int(named_side) if named_side else None)
    protocol = PROTOCOLS[base]
    if side is None:
        return protocol
    if side == protocol.side:
        return replace(protocol, own_side=False)
    if side < 1 or protocol.view == "original":
        raise ConfigError(f"protocol '{base}' takes no input side of {side}")
    return replace(protocol, name=f"{base}@{side}", side=side, own_side=False)
