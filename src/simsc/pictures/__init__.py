"""Pictures: matches, heat-maps, dense flow and curves, all in one look that is safe for colour-blind readers."""

from simsc.pictures.curves import (
    plot_gradients,
    plot_learning_curves,
    plot_lines,
    plot_pck_curves,
    plot_sweep,
)
from simsc.pictures.flow import draw_flow
from simsc.pictures.heatmaps import draw_heatmap, draw_temperature_comparison
from simsc.pictures.matches import draw_matches
from simsc.pictures.sheet import contact_sheet, save_picture

__all__ = [
    "contact_sheet",
    "draw_flow",
    "draw_heatmap",
    "draw_matches",
    "draw_temperature_comparison",
    "plot_gradients",
    "plot_learning_curves",
    "plot_lines",
    "plot_pck_curves",
    "plot_sweep",
    "save_picture",
]
