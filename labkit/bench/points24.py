"""The 24-point solver's fast path for whole sets against the search everyone writes first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations, product

from labkit.bench import benchmark
from labkit.envs.points24.solver import all_hands, is_solvable, reachable

_OPERATIONS: tuple[Callable[[Fraction, Fraction], Fraction], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
)
# The five ways to bracket a ∘ b ∘ c ∘ d.
_BRACKETINGS: tuple[Callable[..., Fraction], ...] = (
    lambda a, b, c, d, f, g, h: h(g(f(a, b), c), d),
    lambda a, b, c, d, f, g, h: h(f(a, g(b, c)), d),
    lambda a, b, c, d, f, g, h: g(f(a, b), h(c, d)),
    lambda a, b, c, d, f, g, h: f(a, h(g(b, c), d)),
    lambda a, b, c, d, f, g, h: f(a, g(b, h(c, d))),
)


def brute_force(hand: Sequence[int], target: int = 24) -> bool:
    """Whether a hand of four reaches `target`: every order, operator and bracketing, exactly."""
    for numbers in permutations(map(Fraction, hand)):
        for operations in product(_OPERATIONS, repeat=3):
            for bracketing in _BRACKETINGS:
                try:
                    if bracketing(*numbers, *operations) == target:
                        return True
                except ZeroDivisionError:
                    continue
    return False


def _rate(solve: Callable[[Sequence[int]], bool], hands: Sequence[Sequence[int]]) -> float:
    start = time.perf_counter()
    for hand in hands:
        solve(hand)
    return len(hands) / (time.perf_counter() - start)


@benchmark("points24_solver", unit="hands/s", higher_is_better=True)
def points24_solver() -> tuple[float, float]:
    """Hands decided per second: all 1,820 with an empty cache, against brute force on every 61st."""
    hands = all_hands()
    reachable.cache_clear()
    return _rate(is_solvable, hands), _rate(brute_force, hands[::61])
