from __future__ import annotations

import pytest

from simsc.errors import ConfigError
from simsc.training.config import Config, parse_changes
from simsc.training.presets import list_presets, load_preset

PAPER = ["resnet101", "resnet101-full", "resnet50", "resnet50-full", "dino-vitb8", "ibot-vitb16", "ibot-vitb16-full"]
OTHERS = ["beta1", "no-l2norm", "single", "fixed:0.03", "dinov2-small", "dinov2-base", "dinov2-large"]


@pytest.mark.parametrize("name", PAPER + OTHERS)
@pytest.mark.parametrize(("data", "epochs"), [("pfpascal", 100), ("spair", 10)])
def test_every_preset_suits_both_data_sets(name: str, data: str, epochs: int) -> None:
    config = load_preset(name, data)
    assert (config.data, config.epochs) == (data, epochs)
    assert config.rates.backbone == (2e-5 if name.endswith("-full") or name == "no-l2norm" else 1e-4)
    assert config.interpolate == "prob"
    assert (config.gamma, config.beta_threshold, config.warmup, config.clip, config.augments) == (0.2, 0.1, 0, 0, False)


def test_the_default_preset_is_the_papers_but_for_what_keeps_it_calm() -> None:
    ours, paper = load_preset("simsc-resnet50", "pfpascal"), load_preset("resnet50", "pfpascal")
    changed = {key for key, value in ours.to_dict().items() if value != paper.to_dict()[key]}
    calm = {"freeze_batchnorm", "clip", "average"}
    data = {"train_split", "anchor_split", "group", "batch_size", "epochs", "zoom", "colour", "variants"}
    assert changed == calm | data
    assert ours.clip > 0


def test_the_listed_preset_keeps_the_papers_pairs_and_images() -> None:
    ours, paper = load_preset("resnet50-listed", "pfpascal").to_dict(), load_preset("resnet50", "pfpascal").to_dict()
    calm = {"freeze_batchnorm", "clip", "average"}
    assert {key for key in ours if ours[key] != paper[key]} == calm | {"batch_size", "epochs"}


def test_groups_need_shared_images_and_anchors_need_groups() -> None:
    with pytest.raises(ConfigError, match="share_images = false needs group = 2"):
        Config(group=4, share_images=False)
    with pytest.raises(ConfigError, match="needs group = 4 or more"):
        Config(anchor_split="train")


def test_ablations_change_what_they_name() -> None:
    assert load_preset("beta1").temperature == "fixed:1"
    assert load_preset("no-l2norm").normalize is False
    assert load_preset("fixed:0.03").temperature == "fixed:0.03"
    assert (load_preset("single").temperature, load_preset("single").rates.temperature) == ("single", 5e-3)


def test_every_preset_says_what_it_is() -> None:
    assert all(about.endswith(".") for about in list_presets().values())


def test_misspelt_names_are_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'resnet101'"):
        load_preset("resnet-101")
    with pytest.raises(ConfigError, match="did you mean 'batch_size'"):
        Config().updated({"batchsize": 4})


@pytest.mark.parametrize(
    ("key", "value", "nearest"),
    [
        ("localizer", "agrmax", "argmax"), ("backbone", "resnet5O", "resnet50"), ("head", "ncent", "ncnet"),
        ("temperature", "mpl", "mlp"), ("trainable", "last-blok", "last-block"), ("data", "pfpascall", "pfpascal"),
        ("data", "pfpascal,spiar@2", "spair"), ("hold_out", "spairs", "spair"), ("interpolate", "probs", "prob"),
        ("schedule", "cosin", "cosine"), ("pairing", "listd", "listed"), ("cache", "memroy", "memory"),
        ("convention", "centre", "center"), ("cache_dtype", "float61", "float16"),
    ],
)  # fmt: skip
def test_misspelt_choices_are_refused_with_the_nearest_one(key: str, value: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{nearest}'"):
        Config().updated({key: value})


def test_rates_follow_from_what_learns() -> None:
    assert Config().rates == (1e-4, 1e-4, 1e-4)
    assert Config().updated({"trainable": "all"}).rates.backbone == 2e-5
    assert Config().updated({"temperature": "single"}).rates.temperature == 5e-3
    assert load_preset("resnet50").updated({"trainable": "all", "rate": 3e-5}).rates.backbone == 3e-5
    stored = Config(trainable="all").to_dict()
    assert (stored["rate"], stored["temperature_rate"]) == (2e-5, 1e-4)  # what was used is on record


def test_a_preset_knows_its_data_set_whatever_its_split_place_and_weight() -> None:
    assert load_preset("resnet50", "spair/train@2").epochs == 10
    assert load_preset("resnet50", "spair:elsewhere").epochs == 10
    assert load_preset("resnet50", "spair,pfpascal").epochs == Config.epochs


def test_a_list_is_not_drawn_in_groups() -> None:
    with pytest.raises(ConfigError, match="pairing = listed takes pairs from a list"):
        Config(pairing="listed", group=4)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epochs", "3.5"), ("epochs", 3.5), ("epochs", -1), ("rate", "fast"), ("rate", float("nan")), ("flip", 1.5),
        ("normalize", "yes"), ("normalize", 1), ("batch_size", 0), ("batch_size", True), ("kernel", 1), ("region", 7),
        ("temperature", 0.03),
    ],
)  # fmt: skip
def test_impossible_values_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        Config().updated({key: value})


def test_a_cache_of_changing_images_is_refused() -> None:
    with pytest.raises(ConfigError, match="frozen trunk and a finite number"):
        Config(cache="memory", flip=0.5)
    with pytest.raises(ConfigError, match="frozen trunk"):
        Config(cache="disk", trainable="all")


def test_changes_are_read_as_key_and_value() -> None:
    assert parse_changes(["rate=1e-4", "weights = a=b"]) == {"rate": "1e-4", "weights": "a=b"}
    with pytest.raises(ConfigError, match="expected key=value"):
        parse_changes(["rate"])


def test_the_packaged_transformers_recipe_is_what_its_card_says() -> None:
    config = load_preset("simsc-vits")
    assert (config.interpolate, config.region, config.kernel, config.schedule) == ("prob", 3, 3, "cosine")
    assert config.data == "pfpascal@1.5,spair@2,voc@0.4"
    assert config.hold_out == "pfpascal,spair!"
    assert config.rates == (1e-4, 1e-3, 5e-4)


def test_both_packaged_models_leave_out_the_same_photographs_and_show_groups() -> None:
    quick, default = load_preset("simsc-resnet50"), load_preset("simsc-vits")
    assert quick.data == "pfpascal@1.5,spair@3,voc@0.4"
    assert (quick.anchor_split, quick.teacher) == ("pfpascal/train", "simsc-vits")
    same = ("hold_out", "pairing", "group", "batch_size", "flip", "zoom", "turn", "schedule", "localizer", "coherent")
    assert all(getattr(quick, key) == getattr(default, key) for key in same)


def test_a_recipe_for_several_sources_heeds_neither_their_weights_nor_their_places() -> None:
    usual = load_preset("simsc-resnet50")
    other = load_preset("simsc-resnet50", "pfpascal@3,spair/train,voc:place@0.1")
    assert other == usual.updated({"data": other.data})
    own = load_preset("simsc-resnet50", "pfpascal,coco:birds/train.json")
    assert (own.group, own.head, own.epochs) == (usual.group, usual.head, usual.epochs)
    assert (own.hold_out, own.anchor_split) == ("", "")
