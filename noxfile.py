"""What is run before a change goes in. `nox` alone runs the tests; `nox -l` lists the rest.

Needs only Python and pip: `pip install nox && nox -s tests`.
"""

import time

import nox

nox.options.sessions = ["tests"]
nox.options.error_on_missing_interpreters = True

PYPROJECT = nox.project.load_toml("pyproject.toml")
CONSTRAINTS = ("-c", "constraints.txt")


def install(session: nox.Session, *groups: str, package: bool = True) -> None:
    """Installs the package (as a user would, not in place) and the named dependency groups."""
    requirements = nox.project.dependency_groups(PYPROJECT, *groups)
    session.install(*CONSTRAINTS, *(["."] if package else []), *requirements)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests but the statistical ones, on two processes."""
    install(session, "test")
    # By file: what a file's tests share is compiled once.
    session.run("pytest", "-n", "2", "--dist", "loadfile", *session.posargs)


@nox.session
def conformance_full(session: nox.Session) -> None:
    """The statistical tests: distributions and whole-game statistics over many games."""
    install(session, "test")
    session.run("pytest", "--statistical", "-m", "statistical", *session.posargs)


@nox.session
def matrix(session: nox.Session) -> None:
    """Every combination of precision, mesh, network and gradients in parts."""
    install(session, "test")
    session.run("pytest", "tests/training/test_matrix.py", "--matrix", *session.posargs)


@nox.session
def faults(session: nox.Session) -> None:
    """Many kills at random times, other ones in each run."""
    install(session, "test")
    session.run(
        *("pytest", "tests/training/test_faults.py", "--kills", "40", *session.posargs),
        env={"HACKMATRIX_KILL_SEED": str(time.time_ns())},
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Style, import order, docstrings, formatting."""
    install(session, "lint", package=False)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Strict static types on the package."""
    install(session, "types")
    session.run("mypy")
