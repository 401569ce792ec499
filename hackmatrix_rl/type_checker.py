"""The checker that the import hook puts around every function of the package."""

from beartype import BeartypeConf, beartype

# A whole number serves where a float is annotated, as type checkers hold (PEP 484).
check = beartype(conf=BeartypeConf(is_pep484_tower=True))
