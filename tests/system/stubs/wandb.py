"""Stands for Weights & Biases, and writes down which process asks it for what."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import jax

TOLD = Path(os.environ["HACKMATRIX_TEST_TOLD"])


def write_down(name, **what):
    with (TOLD / f"wandb-{name}.jsonl").open("a") as file:
        file.write(json.dumps({"process": jax.process_index(), **what}) + "\n")


class Error(Exception):
    pass


class Settings:
    def __init__(self, **given):
        pass


class Run:
    def define_metric(self, *names, **how):
        pass

    def log(self, numbers, **how):
        write_down("rows", **numbers)

    def finish(self):
        pass


def login(**how):
    return True


def setup():
    return SimpleNamespace(settings=SimpleNamespace(base_url="data:,it answers"))


def init(*, id, resume, **more):
    write_down("inits", id=id, resume=resume)
    return Run()


def teardown():
    pass
