"""Which points of a prediction are right, for pictures."""

from __future__ import annotations

import numpy as np
import torch

from simsc.coordinates import resize_boxes
from simsc.evaluation.pck import Threshold, correct_points, threshold_base
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import Protocol
from simsc.evaluation.scoring import frame_points

ALPHA = 0.1


def is_correct(item: Prediction, protocol: Protocol, threshold: Threshold) -> np.ndarray:
    """Which points ``(n,)`` of a prediction count as correct at PCK@0.1 under a protocol."""
    assert item.target_size is not None  # known for every image of a data set
    frame = None if protocol.measure == "original" else protocol.frame(item.target_size)
    truth = torch.from_numpy(frame_points(item.target_points, frame))[None]
    predicted = torch.from_numpy(frame_points(item.predicted, frame))[None]
    mask = torch.ones(truth.shape[:2], dtype=torch.bool)
    boxes = None
    if item.target_box is not None:
        box = item.target_box if frame is None else resize_boxes(item.target_box, frame.original, frame.resized)
        boxes = torch.from_numpy(np.asarray(box))[None]
    size = torch.tensor([frame.canvas if frame else item.target_size])
    base = threshold_base(threshold, points=truth, mask=mask, image_size=size, boxes=boxes)
    return correct_points(predicted, truth, mask, base, [ALPHA], protocol.strict)[0, :, 0].numpy()
