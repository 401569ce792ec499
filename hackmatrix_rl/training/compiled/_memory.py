"""The memory of a compiled program."""

import jax


def program_bytes(program: jax.stages.Compiled) -> int | None:
    """Bytes that a compiled program needs on each device, by the compiler's own figures.

    They cover arguments, results and temporary arrays. `None` if the backend has no figures.
    """
    found = program.memory_analysis()
    if found is None:
        return None
    return int(
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        - found.alias_size_in_bytes
        + found.temp_size_in_bytes
    )
