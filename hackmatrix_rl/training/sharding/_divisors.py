"""Divisors of a number."""

import math


def divisors(number: int) -> list[int]:
    """All divisors of a number, the smallest first; takes about the root of the number in rounds.

    Args:
        number: a whole number, at least 1.
    """
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
