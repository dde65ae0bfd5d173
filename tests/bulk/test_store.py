from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from simsc.bulk.places import Place
from simsc.bulk.store import Encodings, Recent, Store, fingerprint
from simsc.errors import DataError
from simsc.matcher import EncodedImage, Matcher
from simsc.models.model import SimSC


def encodings(matcher: Matcher, root: Path, store: Path | None, max_bytes: int = 0) -> Encodings[EncodedImage]:
    folder = None if store is None else Store(Place.at(store), matcher)
    return Encodings(matcher, lambda image: image, lambda _: 1, root=Place.at(root), store=folder, max_bytes=max_bytes)


def same(one: EncodedImage, other: EncodedImage) -> bool:
    return (
        torch.equal(one.features.maps, other.features.maps)
        and torch.equal(one.features.beta, other.features.beta)
        and one.frame == other.frame
        and one.features.image_size == other.features.image_size
    )


def test_an_encoding_is_the_same_from_network_memory_and_store(matcher: Matcher, photos: Path, tmp_path: Path) -> None:
    alone = encodings(matcher, photos, None).get("0.png")
    first = encodings(matcher, photos, tmp_path, max_bytes=10)
    fresh, kept = first.get("0.png"), first.get("0.png")
    second = encodings(matcher, photos, tmp_path)
    stored = second.get("0.png")
    assert all(same(alone, each) for each in (fresh, kept, stored))
    assert (first.counts.encoded, second.counts.encoded, second.counts.loaded) == (1, 0, 1)
    exact = matcher.encode(photos / "0.png").features.maps
    torch.testing.assert_close(stored.features.maps, exact, rtol=2**-11, atol=1e-6)
    assert stored.features.maps.is_contiguous(memory_format=torch.channels_last)


def test_flipped_encodings_come_back(color_model: SimSC, photos: Path, tmp_path: Path) -> None:
    matcher = Matcher(color_model, size=128, flip=True, device="cpu")
    fresh = encodings(matcher, photos, tmp_path).get("1.png")
    stored = encodings(matcher, photos, tmp_path).get("1.png")
    assert fresh.flipped is not None
    assert stored.flipped is not None
    assert torch.equal(fresh.flipped.maps, stored.flipped.maps)
    assert not torch.equal(stored.features.maps, stored.flipped.maps)


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "header", "size"])
def test_a_damaged_file_is_made_again(matcher: Matcher, photos: Path, tmp_path: Path, damage: str) -> None:
    good = encodings(matcher, photos, tmp_path).get("0.png")
    (file,) = tmp_path.rglob("*.safetensors")
    data = bytearray(file.read_bytes())
    if damage == "bit":
        data[-100] ^= 1
    elif damage == "header":
        data[:8] = b"\xff" * 8
    elif damage == "size":  # of the image, which points are scaled by
        assert data.count(b"[128, 96]") == 1
        data = data.replace(b"[128, 96]", b"[128, 95]")
    file.write_bytes(b"" if damage == "empty" else bytes(data[:-50] if damage == "cut" else data))
    again = encodings(matcher, photos, tmp_path)
    assert same(again.get("0.png"), good)
    assert again.counts.encoded == 1
    assert same(encodings(matcher, photos, tmp_path).get("0.png"), good)


def test_content_decides_not_the_name(matcher: Matcher, photos: Path, tmp_path: Path) -> None:
    shutil.copy(photos / "0.png", tmp_path / "copy.png")
    images = encodings(matcher, tmp_path, tmp_path / "store", max_bytes=10)
    before = images.get("copy.png")
    assert images.prepare(["copy.png", str(photos / "0.png")]) == {}
    assert images.counts.encoded == 1
    shutil.copy(photos / "5.png", tmp_path / "copy.png")  # the same name, another image
    assert not same(images.get("copy.png"), before)


def test_models_and_sizes_do_not_share_files(color_model: SimSC, matcher: Matcher) -> None:
    changed = Matcher(color_model, size=128, device="cpu")
    with torch.no_grad():
        changed.model.backbone.bias += 1e-3
    others = [Matcher(color_model, size=96), Matcher(color_model, size=128, keep_aspect=True), changed]
    marks = [fingerprint(each) for each in (matcher, *others)]
    assert len(set(marks)) == 4
    assert fingerprint(Matcher(color_model, size=128, device="cpu")) == marks[0]


def test_values_too_large_for_half_precision_are_kept_exactly(
    matcher: Matcher, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = matcher.model.encode
    monkeypatch.setattr(matcher, "_encoder", lambda inputs: _times(encode(inputs), 1e6))
    images = encodings(matcher, photos, tmp_path)
    images.prepare(["0.png"])
    stored = encodings(matcher, photos, tmp_path).get("0.png")
    assert torch.isfinite(stored.features.maps).all()
    torch.testing.assert_close(stored.features.maps, 1e6 * encode(_input(matcher, photos)).maps)


def _times(features: object, factor: float) -> object:
    from dataclasses import replace

    return replace(features, maps=features.maps * factor)  # type: ignore[type-var,attr-defined]


def _input(matcher: Matcher, photos: Path) -> torch.Tensor:
    from simsc.images import read_image

    pixels = read_image(photos / "0.png")
    return matcher.view.frame((pixels.shape[0], pixels.shape[1])).to_input(pixels)[None]


def test_workers_meet_what_others_have_done(matcher: Matcher, photos: Path, tmp_path: Path) -> None:
    paths = [f"{index}.png" for index in range(6)]
    one, other = encodings(matcher, photos, tmp_path), encodings(matcher, photos, tmp_path)
    one.prepare(paths[:3])
    other.prepare(paths, first=3)
    assert (one.counts.encoded, other.counts.encoded) == (3, 3)


def test_bad_images_are_told_and_stop_nothing(matcher: Matcher, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    images = encodings(matcher, photos, tmp_path / "store")
    failed = images.prepare(["absent.png", str(tmp_path / "text.png"), "/dev/zero", "0.png"])
    assert set(failed) == {"absent.png", str(tmp_path / "text.png"), "/dev/zero"}
    assert images.counts.encoded == 1
    with pytest.raises(DataError, match="no such"):
        images.get("absent.png")


def test_memory_is_bounded_in_bytes() -> None:
    kept = Recent[int](100)
    for number in range(50):
        kept.put(str(number), number, 30)
        assert kept.size <= 100
    assert [kept.get(str(number)) for number in (47, 48, 49, 46)] == [47, 48, 49, None]
    kept.put("large", 1, 1000)
    assert list(kept) == ["large"]


def test_what_making_images_ready_leaves_free_is_handed_back(
    matcher: Matcher, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []
    monkeypatch.setattr("simsc.bulk.store.hand_back", lambda: times.append(1))
    monkeypatch.setattr("simsc.bulk.store.HELD_FREE", 2)  # each image counts one
    images = encodings(matcher, photos, tmp_path)
    for number in range(8):
        images.get(f"{number % 2}.png")
    assert len(times) == 2  # of eight, with the third and the sixth
