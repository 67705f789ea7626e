"""The widgets that notebooks show, each with a still of itself for a notebook that is only read.

| widget | of notebook | still |
| --- | --- | --- |
| `play_hand` | 03 | `static_play` |
| `TrainingPanel` | 03 | `TrainingPanel.static`, `TrainingPanel.figure` |
| `checkpoint_slider` | 03 | `static_checkpoints` |
"""

from labkit.workshop.points24_checkpoints import checkpoint_slider, snapshots_of, static_checkpoints
from labkit.workshop.points24_play import play_hand, static_play
from labkit.workshop.points24_training import TrainingPanel

__all__ = [
    "TrainingPanel",
    "checkpoint_slider",
    "play_hand",
    "snapshots_of",
    "static_checkpoints",
    "static_play",
]
