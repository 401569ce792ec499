"""What a `Trainer` trains by: each algorithm is a package of its own in here."""

__all__: list[str] = []
