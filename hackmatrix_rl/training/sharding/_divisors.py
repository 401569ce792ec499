"""Numbers that divide another."""

import math


def divisors(number: int) -> list[int]:
    """All numbers that divide one, the smallest first; in as many rounds as its root.

    Args:
        number: at least 1.
    """
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
