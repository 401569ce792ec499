"""How a sweep chooses settings. Commands list it without JAX."""

SAMPLERS = ("tpe", "random")
