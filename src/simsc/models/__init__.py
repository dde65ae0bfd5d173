"""Backbones, the temperature, and the model."""
