"""Random walks for the tests of worlds; as a program, prints one's digest.

python -m tests.envs.walks ID SEED STEPS [OPTIONS as JSON]
"""

import hashlib
import json
import random
import sys

import gymnasium

import labkit.envs  # noqa: F401


def make(id, **options):
    return gymnasium.make(id, **options).unwrapped


def walk(env, seed, steps, resets=True):
    """What a random walk of `steps` admissible actions meets, from `reset(seed)`; resets at each end."""
    draw = random.Random(seed)
    observation, info = env.reset(seed=seed)
    met = [(observation, info["goal"], env.admissible_actions())]
    for _ in range(steps):
        action = draw.choice(env.admissible_actions())
        observation, reward, terminated, truncated, info = env.step(action)
        met.append((action, observation, reward, terminated, truncated, info["steps_left"]))
        if terminated or truncated:
            if not resets:
                break
            observation, info = env.reset()
        met.append((observation, info["goal"], env.admissible_actions()))
    return met


def digest(met):
    return hashlib.sha256(json.dumps(met).encode()).hexdigest()


if __name__ == "__main__":
    id, seed, steps, *options = sys.argv[1:]
    env = make(id, **json.loads(options[0] if options else "{}"))
    print(digest(walk(env, int(seed), int(steps))))
    env.close()
