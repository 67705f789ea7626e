"""Worlds to act in. Importing this registers the environments with gymnasium, by name only."""

import gymnasium

POINTS24_ID = "labkit/Points24-v0"

if POINTS24_ID not in gymnasium.registry:  # a reloaded module must not register twice
    gymnasium.register(POINTS24_ID, entry_point="labkit.envs.points24.env:Points24Env")
