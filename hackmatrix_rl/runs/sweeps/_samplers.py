"""The samplers of a sweep. Commands list them without importing JAX."""

SAMPLERS = ("tpe", "random")
