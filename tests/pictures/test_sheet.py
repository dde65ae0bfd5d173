import numpy as np
import pytest
from PIL import Image

from simsc.errors import DataError
from simsc.pictures import contact_sheet, save_picture
from simsc.pictures.style import GAP, MARGIN


def tile(color: int, height: int = 20, width: int = 30) -> np.ndarray:
    return np.full((height, width, 3), color, np.uint8)


def test_pictures_stand_row_by_row():
    sheet = contact_sheet([tile(10), tile(20), tile(30)], columns=2)
    right, below = MARGIN + 30 + GAP, MARGIN + 20 + GAP
    places = [(MARGIN, MARGIN), (right, MARGIN), (MARGIN, below), (right, below)]
    assert [sheet.getpixel(place)[0] for place in places] == [10, 20, 30, 255]


def test_pictures_of_different_size_and_kind():
    sheet = contact_sheet([tile(0), Image.new("L", (50, 60))], columns=5, captions=["a", "b"], title="both")
    assert sheet.width == 2 * MARGIN + 2 * 50 + GAP


def test_captions_make_room():
    assert contact_sheet([tile(0)], 1, ["x"]).height > contact_sheet([tile(0)], 1).height


def test_wrong_counts_are_refused():
    with pytest.raises(DataError, match="2 captions for 1"):
        contact_sheet([tile(0)], 1, ["a", "b"])
    with pytest.raises(DataError, match="at least"):
        contact_sheet([], 1)


def test_saved_atomically(tmp_path, monkeypatch):
    path = save_picture(Image.new("RGB", (5, 4), (1, 2, 3)), tmp_path / "new" / "picture.png")
    before = path.read_bytes()

    def fail(self, target, *args, **options):
        target.write_bytes(b"half a picture")
        raise OSError("disk full")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        save_picture(Image.new("RGB", (9, 9)), path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["picture.png"]


def test_unknown_format_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"\.xyz"):
        save_picture(Image.new("RGB", (5, 4)), tmp_path / "picture.xyz")
