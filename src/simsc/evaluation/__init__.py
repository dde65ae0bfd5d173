"""Evaluation: images to features, features to predictions, predictions to PCK under a named protocol."""
