"""What a compiled program needs of memory."""

import jax


def program_bytes(program: jax.stages.Compiled) -> int | None:
    """Bytes that a compiled program needs on each device, as the compiler has it.

    Its arguments, results and temporary arrays; `None` where the backend does not tell.
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
