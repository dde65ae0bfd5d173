from __future__ import annotations

import pytest

from simsc.data.records import ImageRef
from simsc.errors import ConfigError
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.protocol import PROTOCOLS, find_protocol


def test_every_protocol_is_found_by_name() -> None:
    assert {"paper-256", "square-256", "original", "cats-256", "geoaware", "dift"} <= set(PROTOCOLS)
    assert all(find_protocol(name).name == name for name in PROTOCOLS)


def test_another_side_is_part_of_the_name() -> None:
    assert find_protocol("paper-256@128").side == 128
    assert find_protocol("paper-256", 256).name == "paper-256"
    assert find_protocol("dift", 384).name == "dift@384"


@pytest.mark.parametrize("name", ["paper-25", "paper-256@x", "original@64", "paper-256@0"])
def test_impossible_protocols_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="protocol"):
        find_protocol(name)


def test_frames_follow_the_view() -> None:
    assert find_protocol("paper-256").frame((300, 400)).canvas == (256, 256)
    assert find_protocol("original").frame((300, 400), 16).canvas == (304, 400)
    padded = find_protocol("geoaware").frame((300, 400))
    assert (padded.canvas, padded.resized, padded.offset) == ((840, 840), (630, 840), (0, 105))
    assert find_protocol("paper-256").frame((300, 400), 14).canvas == (252, 252)


def test_a_resnets_cells_are_whole_at_every_protocol(color_model):
    """Where the side is no multiple of the stride (840 of geoaware), the frame is, so that a cell is 16 pixels."""
    for _, protocol in PROTOCOLS.items():
        encoder = ImageEncoder(color_model, protocol)
        canvas = encoder.frame(ImageRef(key="a", size=(300, 401))).canvas
        grid = color_model.backbone.grid_size(canvas)
        assert (grid[0] * 16, grid[1] * 16) == canvas
        assert max(canvas) <= max(protocol.side, 401) + 8
    assert ImageEncoder(color_model, find_protocol("geoaware")).frame(ImageRef(key="a", size=(9, 9))).canvas == (
        832,
        832,
    )
