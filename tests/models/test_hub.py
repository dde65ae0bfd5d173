from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
import transformers

from simsc.errors import ConfigError, WeightsError
from simsc.models.backbone import Backbone, build_backbone
from simsc.models.card import find_model
from simsc.models.model import SimSC
from simsc.models.published import FILE
from simsc.models.trained import Trained

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def output(backbone: Backbone, batch: torch.Tensor) -> torch.Tensor:
    return backbone.layers(batch, [backbone.num_blocks])[0]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def saved(model: transformers.PreTrainedModel, folder: Path) -> str:
    model.save_pretrained(folder)
    return f"hf:{folder}"


@pytest.mark.parametrize(
    ("config", "model"),
    [
        (transformers.ViTConfig(**SMALL, intermediate_size=64, image_size=64), transformers.ViTModel),
        (transformers.Dinov2Config(**SMALL, image_size=56), transformers.Dinov2Model),
        (transformers.Dinov2WithRegistersConfig(**SMALL, image_size=64), transformers.Dinov2WithRegistersModel),
        (transformers.DINOv3ViTConfig(**SMALL, intermediate_size=64), transformers.DINOv3ViTModel),
    ],
    ids=["vit", "dinov2", "dinov2-registers", "dinov3"],
)
def test_transformers_of_the_hub(tmp_path: Path, config, model) -> None:
    network = model(config).eval()
    backbone = build_backbone(saved(network, tmp_path))
    side = 4 * config.patch_size
    assert backbone.num_blocks == 2
    assert backbone.stride == config.patch_size
    batch = torch.rand(1, 3, side, side)
    with torch.no_grad():
        tokens = network(backbone.normalize(batch)).last_hidden_state[:, -16:]
        torch.testing.assert_close(output(backbone, batch), tokens.transpose(1, 2).reshape(1, 32, 4, 4))


def test_resnet_of_the_hub_is_cut_before_its_fourth_stage(tmp_path: Path) -> None:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 2, 1])
    network = transformers.ResNetModel(config).eval()
    backbone = build_backbone(saved(network, tmp_path))
    batch = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        expected = network(backbone.normalize(batch), output_hidden_states=True).hidden_states[3]
        torch.testing.assert_close(output(backbone, batch), expected)
    assert (backbone.channels, backbone.stride, backbone.stage_blocks()) == (64, 16, 2)
    assert not [name for name in backbone.state_dict() if name.startswith("layer4")]


def test_any_other_backbone_is_used_whole(tmp_path: Path) -> None:
    config = transformers.ConvNextConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32])
    backbone = build_backbone(saved(transformers.ConvNextModel(config), tmp_path))
    batch = torch.rand(1, 3, 64, 96)
    expected = output(backbone, batch)
    assert expected.shape == (1, 32, 2, 3)
    assert backbone.grid_size((64, 96)) == (2, 3)
    model = SimSC(backbone, "fixed:0.05", "all")
    torch.testing.assert_close(model.encode(batch).maps, expected)
    assert backbone.tail_modules() == [backbone.network]
    with pytest.raises(ConfigError, match=r"'last-block' is not allowed for hf:.*allowed: none, all"):
        model.set_trainable("last-block")


def test_basic_blocks_and_gated_perceptrons(tmp_path: Path) -> None:
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 2, 1, 1], "layer_type": "basic"}
    network = transformers.ResNetModel(transformers.ResNetConfig(**sizes)).eval()
    backbone = build_backbone(saved(network, tmp_path / "basic"))
    batch = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        expected = network(backbone.normalize(batch), output_hidden_states=True).hidden_states[3]
        torch.testing.assert_close(output(backbone, batch), expected)
    assert backbone.num_blocks == 4
    config = transformers.Dinov2Config(**SMALL, image_size=56, use_swiglu_ffn=True)
    whole = build_backbone(saved(transformers.Dinov2Model(config), tmp_path / "gated"))
    assert (whole.num_blocks, whole.stride, whole.channels) == (0, 14, 32)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'simsc\[hub\]'"):
        build_backbone("hf:nobody/nothing")


def test_preprocessor_gives_mean_and_std(tmp_path: Path) -> None:
    name = saved(transformers.ViTModel(transformers.ViTConfig(**SMALL, intermediate_size=64)), tmp_path)
    processor = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    spec = build_backbone(name).spec
    assert spec.mean == (0.5, 0.5, 0.5)
    assert spec.std == (0.25, 0.25, 0.25)


def test_random_weights_are_seeded(tmp_path: Path) -> None:
    name = saved(transformers.ViTModel(transformers.ViTConfig(**SMALL, intermediate_size=64)), tmp_path)
    first, second = (build_backbone(name, None, seed=1).state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_unreachable_repository_is_one_sentence() -> None:
    with pytest.raises(WeightsError, match=r"cannot load https://huggingface.co/nobody/nothing"):
        build_backbone("hf:nobody/nothing")


def test_models_without_feature_maps_are_refused(tmp_path: Path) -> None:
    transformers.BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="type 'bert' give no feature maps"):
        build_backbone(f"hf:{tmp_path}")


def test_a_folder_with_a_model_of_ours_is_that_model(tmp_path: Path) -> None:
    Trained.begin({"backbone": "resnet50", "weights": None, "seed": 3}).save(tmp_path / FILE)
    opened = Trained.open(f"hf:{tmp_path}")
    assert (opened.name, opened.card.training["seed"]) == (f"hf:{tmp_path}", 3)
    saved(transformers.ViTModel(transformers.ViTConfig(**SMALL, intermediate_size=64)), tmp_path / "other")
    assert find_model(f"hf:{tmp_path / 'other'}") is None  # a backbone


def test_an_unreachable_model_is_one_sentence() -> None:
    with pytest.raises(
        WeightsError, match=r"^cannot load hf:nobody/nothing \(.*\); check the name and the connection$"
    ):
        find_model("hf:nobody/nothing")


def test_without_the_library_published_models_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install 'simsc\[hub\]'"):
        find_model("hf:nobody/nothing")


def test_configuration_and_weights_are_of_one_commit_and_safetensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch may move between two questions: the commit of the first answer is asked for from then on."""
    config = transformers.ViTConfig(**SMALL, intermediate_size=64, image_size=64)
    network = transformers.ViTModel(config)
    asked: list[tuple[str, dict[str, object]]] = []

    def answers(answer: object):
        def load(name: str, **options: object) -> object:
            asked.append((name, options))
            return answer

        return load

    config._commit_hash = "c0ffee"
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", answers(config))
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", answers(network))
    backbone = build_backbone("hf:somebody/network@main")
    (_, first), (name, second) = asked
    assert first["revision"] == "main"
    assert (name, second["revision"], second["use_safetensors"]) == ("somebody/network", "c0ffee", True)
    assert not any("trust_remote_code" in options for _, options in asked)
    assert backbone.spec.name == "hf:somebody/network@c0ffee"


@pytest.mark.parametrize("damage", ["cut", "no numbers", "configuration"])
def test_damaged_files_of_the_hub_are_one_sentence(tmp_path: Path, damage: str) -> None:
    network = transformers.ViTModel(transformers.ViTConfig(**SMALL, intermediate_size=64, image_size=64))
    if damage == "no numbers":
        with torch.no_grad():
            network.layernorm.bias[0] = float("nan")
    name = saved(network, tmp_path)
    file = tmp_path / ("config.json" if damage == "configuration" else "model.safetensors")
    if damage != "no numbers":
        file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(WeightsError) as error:
        build_backbone(name)
    assert "\n" not in str(error.value)
