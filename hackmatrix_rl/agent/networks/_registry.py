"""Networks by name."""

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.machinery import ModuleSpec
from typing import Any

from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic
from hackmatrix_rl.agent.networks._conv import ConvActorCritic, ResNetActorCritic
from hackmatrix_rl.agent.networks._graph import GraphActorCritic
from hackmatrix_rl.agent.networks._mlp import MLPActorCritic, ResidualActorCritic
from hackmatrix_rl.agent.networks._plastic import MPNActorCritic
from hackmatrix_rl.agent.networks._recurrent import GRUActorCritic, LSTMActorCritic
from hackmatrix_rl.agent.networks._recursive import RecursiveNetwork
from hackmatrix_rl.agent.networks._transformer import TransformerActorCritic
from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.system.errors import similar

NETWORKS: dict[str, Callable[..., ActorCritic]] = {
    "mlp": MLPActorCritic,
    "cells": partial(ConvActorCritic, layers=0),
    "conv": ConvActorCritic,
    "gru": GRUActorCritic,
    "lstm": LSTMActorCritic,
    "residual": ResidualActorCritic,
    "resnet": ResNetActorCritic,
    "transformer": TransformerActorCritic,
    "recursive": RecursiveNetwork,
    "mpn": MPNActorCritic,
    "mpn-frozen": partial(MPNActorCritic, plastic=False),
    "graph": GraphActorCritic,
}
"""Each is called as `factory(spec, width=..., depth=..., key=...)`; some take no `width` or
`depth`."""
ON_EVERY_BOARD = "graph"
"""The name of the network whose weights fit boards of every size."""


def build_network(
    name: str,
    spec: EnvSpec,
    *,
    width: int | None = None,
    depth: int | None = None,
    optional: Sequence[str] = (),
    key: Key[Array, ""],
) -> ActorCritic:
    """Builds a network by its name.

    Args:
        name: one of `NETWORKS`, or `module:factory` for a custom network: a module to import, and
            a class or function in it with the same arguments. The import runs the module's code.
            Python searches the working directory first.
        spec: the spec of the environment.
        width: width of the hidden layers; `None` for the network's default (the factory then gets
            no `width`).
        depth: number of hidden layers or blocks; `None` for the network's default.
        optional: sizes to ignore if the factory does not take them, because no user set them.
        key: source of randomness for the weights.

    Raises:
        ValueError: the name is unknown, the network has no such size, or the factory does not
            return an `ActorCritic`.
    """
    if name not in NETWORKS and module_of(name) is None:
        raise ValueError(
            f"unknown network {name!r}; choose one of {', '.join(NETWORKS)}, or a custom network "
            "as module:factory"
        )
    factory = NETWORKS[name] if name in NETWORKS else import_factory(name, "network")
    given = {"width": width, "depth": depth}
    sizes = {size: number for size, number in given.items() if number is not None}
    for size in sizes:
        if not _takes(factory, size) and size not in optional:
            raise ValueError(f"network {name!r} has no {size}")
    taken = {size: number for size, number in sizes.items() if _takes(factory, size)}
    network = factory(spec, **taken, key=key)
    if not isinstance(network, ActorCritic):
        raise ValueError(
            f"network {name!r} built a {type(network).__name__}; it must build a subclass of "
            "hackmatrix_rl.agent.networks.ActorCritic"
        )
    return network


def _takes(factory: Callable[..., object], name: str) -> bool:
    parameters = inspect.signature(factory).parameters.values()
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)


def module_of(name: str) -> str | None:
    """The module of `module:factory`; `None` for any other name."""
    module, colon, factory = name.partition(":")
    parts = [*module.split("."), factory]
    return module if colon and all(part.isidentifier() for part in parts) else None


def import_factory(name: str, what: str) -> Callable[..., object]:
    """Imports the function or class that `module:factory` names. This runs the module's code.

    Raises a ValueError if there is no such module or factory; `what` is the kind of object in the
    message.
    """
    module_name, _, factory_name = name.partition(":")
    # The working directory is searched first for the user's module only, and last afterwards: a
    # `matplotlib.py` in a folder from somebody else must not shadow the installed one.
    try:
        with _from_here() as here:
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A failed import inside of the user's module is shown as it is.
        missing = error.name or ""
        if missing != module_name and not module_name.startswith(f"{missing}."):
            raise
        raise ValueError(
            f"{what} {name!r}: there is no module {module_name!r} to import; add its folder to "
            "PYTHONPATH"
        ) from error
    if here not in sys.path:
        sys.path.append(here)  # for imports when the factory is called
    if not hasattr(module, factory_name):
        likely = similar(factory_name, vars(module))
        advice = "" if likely is None else f"; the nearest name is {module_name}:{likely}"
        raise ValueError(f"{what} {name!r}: module {module_name!r} has no {factory_name!r}{advice}")
    factory: Callable[..., object] = getattr(module, factory_name)
    if not callable(factory):
        raise ValueError(f"{what} {name!r}: {factory_name!r} cannot be called")
    return factory


@contextmanager
def _from_here() -> Iterator[str]:
    """Puts the working directory first in the search path for modules, and yields it."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield here
    finally:
        if here in sys.path:  # the module may have removed it
            sys.path.remove(here)


def module_files(module: str, *, from_here: bool = True) -> list[str]:
    """The files that importing a module would run: of its packages, then its own.

    Nothing is imported. Files that these import are not included. Symbolic links are resolved. The
    list is empty if the module is not found.

    Args:
        module: the module, such as `my_package.my_module`.
        from_here: whether the working directory is searched first, as in `import_factory`.
    """
    with _from_here() if from_here else nullcontext():
        return _files_of(module.split("."))


def _files_of(parts: Sequence[str]) -> list[str]:
    files: list[str] = []
    file: str | None = None
    places: Sequence[str] | None = None
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if (loaded := sys.modules.get(name)) is not None:
            file, inside = getattr(loaded, "__file__", None), getattr(loaded, "__path__", None)
        else:
            spec = _spec_of(name, places)
            if spec is None:
                return []
            file = spec.origin if spec.has_location else None
            inside = spec.submodule_search_locations
        places = [] if inside is None else list(inside)
        files += [] if file is None else [os.path.realpath(file)]
    return [] if file is None else files


def _spec_of(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """The spec of a module, without importing it. `places`: its package's paths, if it has one."""
    if places is None:
        finders: Sequence[Any] = sys.meta_path
        return next(filter(None, (finder.find_spec(name, None) for finder in finders)), None)
    # Not by `sys.meta_path`, which needs the parents of a namespace package to be imported.
    found = [
        spec
        for place in places
        if (finder := pkgutil.get_importer(place)) is not None
        and (spec := finder.find_spec(name)) is not None
    ]
    # A namespace package only if there is no regular module of that name.
    return next((each for each in found if each.loader is not None), found[0] if found else None)
