"""The widgets that notebooks show, each with a still of itself for a notebook that is only read.

| widget | of notebook | still |
| --- | --- | --- |
| `stepper` | 01 | `static_stepper` |
| `clip_explorer` | 02 | `static_clip` |
| `kl_explorer` | 02 | `static_kl` |
| `group_marker` | 02 | `static_group_marker` |
| `play_hand` | 03 | `static_play` |
| `TrainingPanel` | 03 | `TrainingPanel.static`, `TrainingPanel.figure` |
| `checkpoint_slider` | 03 | `static_checkpoints` |
"""

from labkit.workshop.points24_checkpoints import checkpoint_slider, snapshots_of, static_checkpoints
from labkit.workshop.points24_play import play_hand, static_play
from labkit.workshop.points24_training import TrainingPanel
from labkit.workshop.ppo_clip import clip_explorer, static_clip
from labkit.workshop.ppo_group import group_marker, static_group_marker
from labkit.workshop.ppo_kl import kl_explorer, static_kl
from labkit.workshop.react_stepper import static_stepper, stepper

__all__ = [
    "TrainingPanel",
    "checkpoint_slider",
    "clip_explorer",
    "group_marker",
    "kl_explorer",
    "play_hand",
    "snapshots_of",
    "static_checkpoints",
    "static_clip",
    "static_group_marker",
    "static_kl",
    "static_play",
    "static_stepper",
    "stepper",
]
