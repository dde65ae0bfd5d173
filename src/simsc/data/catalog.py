"""What is known of each data set: splits, threshold of PCK, folders, terms, sources and expected counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from simsc.errors import ConfigError, unknown_name

Threshold = Literal["img", "kps", "bbox"]


@dataclass(frozen=True)
class Source:
    """A file to download.

    Attributes:
        url: where it is.
        file: the name it gets; an archive is unpacked into the data set's folder.
        sha256: the recorded digest, or ``None`` where none is known.
        missing: what to do by hand when the address is gone.
    """

    url: str
    file: str
    sha256: str | None = None
    missing: str = ""

    @property
    def is_archive(self) -> bool:
        """Whether it is unpacked after the download."""
        return self.file.endswith((".zip", ".tar.gz", ".tgz", ".tar"))


@dataclass(frozen=True)
class DatasetInfo:
    """A data set as the registry knows it.

    Attributes:
        name: the name on the command line.
        title: the name in print.
        splits: all splits.
        threshold: what PCK's radius is a fraction of: image, key-points' extent or object box.
        folders: names of its folder below the cache or another folder that holds data sets; the first is
            where a download goes.
        markers: paths one of which exists in the data set's own folder; empty for users' own files.
        licence: terms of use.
        citation: authors, title, venue.
        homepage: for people.
        sources: files that ``simsc data download`` fetches.
        by_hand: how to get it where no download exists.
        counts: ``{split: (pairs, points)}`` of the complete data set; ``None`` where not measured.
    """

    name: str
    title: str
    splits: tuple[str, ...]
    threshold: Threshold
    folders: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    licence: str = ""
    citation: str = ""
    homepage: str = ""
    sources: tuple[Source, ...] = ()
    by_hand: str = ""
    counts: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)


_PROPOSAL_FLOW = "https://www.di.ens.fr/willow/research/proposalflow"
_PAIR_LISTS = "https://www.robots.ox.ac.uk/~xinghui/sd4match"

_PFPASCAL = DatasetInfo(
    name="pfpascal",
    title="PF-PASCAL",
    splits=("train", "train-all", "val", "test", "clean"),
    threshold="img",
    folders=("pfpascal", "pf-pascal", "PF-PASCAL"),
    markers=("PF-dataset-PASCAL",),
    licence="research use; the photographs are PASCAL VOC's, under the terms of Flickr",
    citation="Ham, Cho, Schmid, Ponce: Proposal Flow: Semantic Correspondences from Object Proposals. TPAMI 2018",
    homepage=f"{_PROPOSAL_FLOW}/",
    sources=(
        Source(
            f"{_PROPOSAL_FLOW}/dataset/PF-dataset-PASCAL.zip",
            "PF-dataset-PASCAL.zip",
            missing="get PF-dataset-PASCAL.zip from the project page of Proposal Flow",
        ),
        Source(
            f"{_PAIR_LISTS}/pf-pascal_image_pairs.zip",
            "pf-pascal_image_pairs.zip",
            missing="any of the public code bases for PF-PASCAL carries train_pairs.csv (or trn_pairs.csv), "
            "val_pairs.csv and test_pairs.csv: put them into the folder image_pairs beside PF-dataset-PASCAL",
        ),
    ),
    counts={
        "train": (2940, 23888),
        "train-all": (129624, 912752),
        "val": (308, 2519),
        "test": (299, 2414),
        "clean": (204, 1587),
    },
)

_PFWILLOW = DatasetInfo(
    name="pfwillow",
    title="PF-WILLOW",
    splits=("test",),
    threshold="kps",
    folders=("pfwillow", "pf-willow", "PF-WILLOW"),
    markers=("PF-dataset",),
    licence="academic use",
    citation="Ham, Cho, Schmid, Ponce: Proposal Flow. CVPR 2016",
    homepage=f"{_PROPOSAL_FLOW}/",
    # The list of pairs is not fetched: it names all ordered pairs of a sub-class, which the reader forms itself.
    sources=(
        Source(
            f"{_PROPOSAL_FLOW}/dataset/PF-dataset.zip",
            "PF-dataset.zip",
            missing="get PF-dataset.zip from the project page of Proposal Flow",
        ),
    ),
    counts={"test": (900, 9000)},
)

_SPAIR = DatasetInfo(
    name="spair",
    title="SPair-71k",
    splits=("train", "val", "test", "clean", "partial-trn", "partial-val"),
    threshold="bbox",
    folders=("spair", "spair-71k", "SPair-71k"),
    markers=("ImageAnnotation", "PairAnnotation"),
    licence="research use; the photographs are PASCAL VOC's, under the terms of Flickr",
    citation="Min, Lee, Ponce, Cho: SPair-71k: A Large-scale Benchmark for Semantic Correspondence. 2019",
    homepage="https://cvlab.postech.ac.kr/research/SPair-71k/",
    sources=(
        Source(
            "https://cvlab.postech.ac.kr/research/SPair-71k/data/SPair-71k.tar.gz",
            "SPair-71k.tar.gz",
            missing="get SPair-71k.tar.gz from the project page of SPair-71k",
        ),
    ),
    counts={
        "train": (53340, None),
        "val": (5384, None),
        "test": (12234, 88328),
        "clean": (8444, 58908),
        "partial-trn": (1594, 10790),
        "partial-val": (212, 1538),
    },
)

_AP10K = DatasetInfo(
    name="ap10k",
    title="AP-10K pairs",
    splits=(
        *("train", "val", "test", "val-cross-species", "test-cross-species"),
        *("val-cross-family", "test-cross-family"),
    ),
    threshold="bbox",
    folders=("ap10k", "ap-10k"),
    markers=("PairAnnotation", "ImageAnnotation"),
    licence="see the AP-10K repository",
    citation="Yu et al.: AP-10K: A Benchmark for Animal Pose Estimation in the Wild. NeurIPS 2021 (images); "
    "Zhang et al.: Telling Left from Right. CVPR 2024 (pairs)",
    homepage="https://github.com/AlexTheBad/AP-10K",
    by_hand="download the AP-10K archive linked on https://github.com/AlexTheBad/AP-10K (Google Drive), run the "
    "notebook prepare_ap10k.ipynb of https://github.com/Junyi42/GeoAware-SC on it, and give the resulting "
    "folder ap-10k as --root",
)

_CUB = DatasetInfo(
    name="cub",
    title="CUB-200-2011",
    splits=("train", "test"),
    threshold="bbox",
    folders=("cub", "CUB_200_2011"),
    markers=("image_class_labels.txt",),
    licence="non-commercial research and education",
    citation="Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset. 2011",
    homepage="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    sources=(
        Source(
            "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
            "CUB_200_2011.tgz",
            sha256="0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
            missing="get CUB_200_2011.tgz from https://data.caltech.edu/records/65de6-vp158",
        ),
    ),
)

_COCO = DatasetInfo(
    name="coco",
    title="Own key-points in COCO format",
    splits=("train", "val", "test"),
    threshold="bbox",
    by_hand="give your JSON file, or the folder with train.json, val.json and test.json, as --root",
)

_PAIRS = DatasetInfo(
    name="pairs",
    title="Own pairs (JSON or CSV)",
    splits=("train", "val", "test"),
    threshold="img",
    by_hand="give your JSON or CSV file, or the folder with train, val and test files, as --root",
)

_SCENES = DatasetInfo(
    name="scenes",
    title="Procedural scenes",
    splits=("train", "val", "test"),
    threshold="img",
    licence="part of this project",
    by_hand="nothing to download: the scenes are drawn on demand",
)

DATASETS: dict[str, DatasetInfo] = {
    info.name: info for info in (_PFPASCAL, _PFWILLOW, _SPAIR, _AP10K, _CUB, _COCO, _PAIRS, _SCENES)
}


def dataset_info(name: str) -> DatasetInfo:
    """The entry of a data set, or a sentence with the allowed names."""
    if name not in DATASETS:
        raise ConfigError(unknown_name("data set", name, DATASETS))
    return DATASETS[name]
