"""Worlds to act in. Importing this registers the environments with gymnasium, by name only."""

import gymnasium

POINTS24_ID = "labkit/Points24-v0"
PHONE_WORLD_ID = "labkit/PhoneWorld-v0"
CRAFT_WORLD_ID = "labkit/CraftWorld-v0"
TEXT_CRAFT_ID = "labkit/TextCraft-v0"
SCIENCE_WORLD_ID = "labkit/ScienceWorld-v0"
TEXT_WORLD_EXPRESS_ID = "labkit/TextWorldExpress-v0"

ENTRY_POINTS = {
    POINTS24_ID: "labkit.envs.points24.env:Points24Env",
    PHONE_WORLD_ID: "labkit.envs.phone.env:PhoneWorld",
    CRAFT_WORLD_ID: "labkit.envs.craft.env:CraftWorld",
    TEXT_CRAFT_ID: "labkit.envs.textcraft:TextCraft",
    SCIENCE_WORLD_ID: "labkit.envs.scienceworld:ScienceWorld",
    TEXT_WORLD_EXPRESS_ID: "labkit.envs.textworld_express:TextWorldExpress",
}
"""Where each environment is, by its id."""

for _id, _entry_point in ENTRY_POINTS.items():
    if _id not in gymnasium.registry:  # a reloaded module must not register twice
        gymnasium.register(_id, entry_point=_entry_point)
