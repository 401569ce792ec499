"""Interfaces to other programs: adapters of environments, and the line protocol."""
