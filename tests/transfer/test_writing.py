"""Files that annotation tools open: read back with the tools' own readers, where they are installed."""

from __future__ import annotations

import json
import os
import shutil
from xml.etree import ElementTree as xml

import numpy as np
import pytest
from PIL import Image

from simsc.data.sources import load_pairs
from simsc.transfer.instances import Category, Instance, Labelled, Moved
from simsc.transfer.reading import read_categories, read_instances
from simsc.transfer.writing import FORMATS

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

HEIGHT, WIDTH = 60, 80
CATEGORIES = [
    Category(3, "cat", ("nose", "left ear", "tail"), ((1, 2), (1, 3)), {"supercategory": "animal"}),
    Category(9, "dog", ("nose",)),
]


@pytest.fixture
def images(tmp_path):
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[10:31, 20:51] = True
    mask[12, 22] = False
    cat = Moved(
        Instance("cat", {"tail": (50.25, 30.5), "nose": (20.0, 12.0)}, (20.0, 10.0, 51.0, 31.0), mask),
        {"nose": 0.9, "left ear": 0.1, "tail": 0.4},
        {"nose": "sure", "left ear": "none", "tail": "unsure"},
        0.8,
        0.7,
    )
    dog = Moved(Instance("dog", {"nose": (5.0, 6.0)}), {"nose": 0.95}, {"nose": "sure"}, 0.05, None)
    paths = [tmp_path / "photos" / "a.png", tmp_path / "photos" / "more" / "b.png"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT)).save(path)
    return [Labelled(str(paths[0]), (HEIGHT, WIDTH), [cat, dog]), Labelled(str(paths[1]), (HEIGHT, WIDTH), [cat])]


@pytest.fixture
def write(images, tmp_path):
    return lambda form, name: FORMATS[form](CATEGORIES, images, tmp_path / name)


def test_coco_keeps_categories_order_skeleton_and_says_what_is_doubtful(write):
    document = json.loads(write("coco", "labels.json")[0].read_text())
    assert document["categories"][0] == {
        "supercategory": "animal", "id": 3, "name": "cat", "keypoints": ["nose", "left ear", "tail"],
        "skeleton": [[1, 2], [1, 3]],
    }  # fmt: skip
    cat, dog, _ = document["annotations"]
    assert cat["category_id"] == 3
    assert cat["keypoints"] == [20, 12, 2, 0, 0, 0, 50.25, 30.5, 1]
    assert cat["num_keypoints"] == 2
    assert cat["bbox"] == [20, 10, 31, 21]
    assert "bbox" not in dog  # it was unreliable
    assert [image["file_name"] for image in document["images"]] == ["photos/a.png", "photos/more/b.png"]


def test_categories_and_labels_survive_a_round_trip_through_coco(write, images):
    (path,) = write("coco", "labels.json")
    assert read_categories(path) == CATEGORIES
    cat, dog = read_instances(path, "a.png", (HEIGHT, WIDTH))
    assert cat.keypoints == {"nose": images[0].found[0].instance.keypoints["nose"]}
    assert cat.doubtful == ("tail",)
    np.testing.assert_array_equal(cat.mask, images[0].found[0].instance.mask)
    assert dog.box is None


def test_training_reads_the_coco_file(write):
    (path,) = write("coco", "labels.json")
    pairs = load_pairs("coco", path, "test")
    assert {pair.category for pair in pairs} == {"cat"}
    assert pairs[0].point_names == ("nose", "tail")


def test_pycocotools_reads_the_coco_file(write, images):
    coco = pytest.importorskip("pycocotools.coco").COCO
    (path,) = write("coco", "labels.json")
    labels = coco(str(path))
    assert labels.getCatIds(catNms=["cat"]) == [3]
    (annotation,) = labels.loadAnns(labels.getAnnIds(imgIds=[2]))
    np.testing.assert_array_equal(labels.annToMask(annotation) > 0, images[0].found[0].instance.mask)


def test_labelme_opens_the_files_beside_their_images(write, images, tmp_path):
    file = pytest.importorskip("labelme._label_file")
    written = write("labelme", "photos")
    assert written == [tmp_path / "photos" / "a.json", tmp_path / "photos" / "more" / "b.json"]
    for path in written:
        label = file.LabelFile(str(path))
        assert label.image_path == f"{path.stem}.png"
        assert [shape["label"] for shape in label.shapes][:4] == ["tail", "nose", "cat", "cat"]
        assert label.shapes[3]["mask"].shape == (21, 31)


def test_labelme_files_name_their_image_size_and_no_data(write):
    document = json.loads(write("labelme", "out")[1].read_text())
    assert document["imagePath"] == "../../photos/more/b.png"
    assert (document["imageHeight"], document["imageWidth"], document["imageData"]) == (HEIGHT, WIDTH, None)
    assert [shape["description"] for shape in document["shapes"][:2]] == ["unsure", "sure"]


def test_cvat_has_skeletons_boxes_and_masks(write):
    root = xml.parse(write("cvat", "labels.xml")[0]).getroot()
    assert root.findtext("version") == "1.1"
    labels = {(label.findtext("name"), label.findtext("type")) for label in root.iter("label")}
    assert {("cat", "skeleton"), ("tail", "points")} <= labels
    image = root.find("image")
    assert dict(image.attrib) == {"id": "0", "name": "a.png", "width": "80", "height": "60"}
    skeleton = image.find("skeleton")
    points = {each.get("label"): each for each in skeleton}
    assert points["tail"].get("points") == "50.75,31.00"
    assert points["tail"].get("occluded") == "1"
    assert points["left ear"].get("outside") == "1"
    assert image.find("box").get("xbr") == "51.00"
    mask = image.find("mask")
    runs = [int(run) for run in mask.get("rle").split(",")]
    flat = np.repeat(np.arange(len(runs)) % 2, runs).reshape(int(mask.get("height")), int(mask.get("width")))
    assert flat[2, 2] == 0
    assert flat.sum() == 21 * 31 - 1


def test_datumaro_reads_the_cvat_file(write, images, tmp_path):
    """It flattens skeletons into visible points: an absent one is at (0, 0), which CVAT itself knows as outside."""
    datumaro = pytest.importorskip("datumaro")  # needs an older Pillow than the project, so it is not in the extra dev
    shutil.copytree(tmp_path / "photos", tmp_path / "set" / "images")
    write("cvat", "set/labels.xml")
    found = datumaro.Dataset.import_from(str(tmp_path / "set"), "cvat")
    labels = [label.name for label in found.categories()[datumaro.AnnotationType.label]]
    assert labels == ["cat", "nose", "left ear", "tail", "dog"]
    items = {item.id: item for item in found}
    assert sorted(items) == ["a", "more/b"]
    cat, dog = (moved.instance for moved in images[0].found)
    seen = [each for each in items["a"].annotations if each.type.name == "points" and any(each.points)]
    assert [labels[each.label] for each in seen] == ["nose", "tail", "nose"]
    places = [cat.keypoints["nose"], cat.keypoints["tail"], dog.keypoints["nose"]]
    np.testing.assert_allclose([each.points for each in seen], np.array(places) + 0.5)
    assert [each.attributes["occluded"] for each in seen] == [False, True, False]
    areas = {each.type.name: each for each in items["more/b"].annotations if each.type.name != "points"}
    assert areas["bbox"].points == list(cat.box)
    np.testing.assert_array_equal(areas["mask"].image > 0, cat.mask)


def test_label_studio_tasks_have_predictions_that_fit_their_configuration(write, images):
    tasks, configuration = write("label-studio", "tasks.json")
    first = json.loads(tasks.read_text())[0]
    assert first["data"]["image"] == "/data/local-files/?d=photos/a.png"
    results = {(each["type"], *each["value"][each["type"]]): each for each in first["predictions"][0]["result"]}
    tail = results["keypointlabels", "tail"]
    np.testing.assert_allclose([tail["value"]["x"], tail["value"]["y"]], [100 * 50.75 / 80, 100 * 31 / 60])
    assert tail["score"] == 0.4
    box = results["rectanglelabels", "cat"]["value"]
    np.testing.assert_allclose([box["x"], box["width"]], [25, 100 * 31 / 80])
    controls = {control.get("name") for control in xml.fromstring(configuration.read_text())}
    assert {each["from_name"] for each in results.values()} <= controls


def test_label_studio_validates_the_tasks_and_decodes_the_mask(write, images):
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    brush = pytest.importorskip("label_studio_sdk.converter.brush")
    tasks, configuration = write("label-studio", "tasks.json")
    form = interface.LabelInterface(configuration.read_text())
    for task in json.loads(tasks.read_text()):
        assert form.validate_prediction(task["predictions"][0], return_errors=True) == []
        (mask,) = [each for each in task["predictions"][0]["result"] if each["type"] == "brushlabels"]
        decoded = brush.decode_rle(mask["value"]["rle"]).reshape(HEIGHT, WIDTH, 4)[..., 3] > 0
        np.testing.assert_array_equal(decoded, images[0].found[0].instance.mask)
