"""What is run before a change goes in. `nox` alone runs the tests; `nox -l` lists the rest.

Needs only Python and pip: `pip install nox && nox -s tests`.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.error_on_missing_interpreters = True
# Seconds instead of a minute for each session's installation, where uv is there.
nox.options.default_venv_backend = "uv|virtualenv"

PYPROJECT = nox.project.load_toml("pyproject.toml")
CONSTRAINTS = ("-c", "constraints.txt")

# By file: what a file's tests share is compiled once. In the order of tests/conftest.py.
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
PARALLEL = ("-n", "2", *BY_FILE)
# Where tests wait for processes that they have started, two workers leave half of two cores idle.
WAITING = ("-n", "3", *BY_FILE)
TYPES_CHECKED = {"HACKMATRIX_RL_CHECK_TYPES": "1"}
DIST = Path("dist")
SITE = Path("site/html")


def install(session: nox.Session, *groups: str, package: bool = True) -> None:
    """Installs the package (as a user would, not in place) and the named dependency groups."""
    requirements = nox.project.dependency_groups(PYPROJECT, *groups)
    session.install(*CONSTRAINTS, *(["."] if package else []), *requirements)


def python_here(version: str) -> str | None:
    """A Python of a version, such as 3.13, that works here; `None` without one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"versions/{version}.*/bin/python")),
    ]
    for python in filter(None, found):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(python)
    return None


@nox.session
def tests(session: nox.Session) -> None:
    """The game, the modules and training in one process: what to run before each commit."""
    install(session, "test")
    session.log(
        "Tests of the game, the modules, checkpoints and commands: some minutes on two free "
        "cores, most of it compiling. What fails is told at the end. `nox -l` lists the sessions "
        "for real processes, devices, search, pictures, examples and pages; `bash .ci/run` runs "
        "them all."
    )
    session.run("pytest", *PARALLEL, "--session", "tests", *session.posargs)


@nox.session
def processes(session: nox.Session) -> None:
    """Commands as users run them, with real processes, signals, kills and full disks."""
    install(session, "test")
    session.run("pytest", *WAITING, "--session", "processes", *session.posargs)


@nox.session
def devices(session: nox.Session) -> None:
    """Meshes, number formats, memory, debugging and speed; shapes are checked at run time."""
    install(session, "test")
    session.run("pytest", *PARALLEL, "--session", "devices", *session.posargs, env=TYPES_CHECKED)


@nox.session
def accelerators(session: nox.Session) -> None:
    """What the compilers of TPUs and, at night, of GPUs make of trainings; neither is needed."""
    install(session, "test")
    nightly = "--nightly" in session.posargs
    session.install(*CONSTRAINTS, ".[tpu-plan,gpu-plan]" if nightly else ".[tpu-plan]")
    session.run("pytest", "tests/accelerators", *session.posargs, env={"JAX_PLATFORMS": "cpu"})


@nox.session(python=[*filter(None, map(python_here, ("3.11", "3.12", "3.13")))])
def gpu_options(session: nox.Session) -> None:
    """Whether the GPU's compiler takes our options, by the newest version each Python can have."""
    session.install("--upgrade", ".[gpu-plan]", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("pytest", "-q", "tests/accelerators/test_gpu_options.py", "--nightly", "1/1")


@nox.session
def view(session: nox.Session) -> None:
    """How agents and people play; evaluation, replays, reports; what a sent run could do."""
    install(session, "test")
    session.run("pytest", *PARALLEL, "--session", "view", *session.posargs)


@nox.session
def search(session: nox.Session) -> None:
    """Players that search, imitation, the clique game, self-play, memory tasks and Q-learning."""
    install(session, "test")
    session.run("pytest", *PARALLEL, "--session", "search", *session.posargs)


@nox.session
def examples(session: nox.Session) -> None:
    """Scripts of examples/ and, at a small size, notebooks/, against the built wheel."""
    install(session, "examples")
    session.run("pytest", "-n", "3", "tests/examples", *session.posargs)


@nox.session
def notebooks(session: nox.Session) -> None:
    """Executes notebooks/ at full size and stores the outputs; `-- NAME.ipynb` for one of them."""
    install(session, "examples")
    session.run("python", "notebooks/execute.py", *session.posargs)


@nox.session
def adapters(session: nox.Session) -> None:
    """gymnasium, gymnax, Brax and pgx: the game in theirs, their games here, and their page."""
    install(session, "adapters")
    paths = ("tests/interop/adapters", "tests/pages/test_code_blocks.py")
    session.run("pytest", *PARALLEL, *paths, "-k", "adapters or coming", *session.posargs)


@nox.session
def mjx(session: nox.Session) -> None:
    """An environment of MuJoCo Playground; it brings Warp, a large download."""
    install(session, "mjx")
    session.run("pytest", "tests/interop/adapters/test_brax.py", *session.posargs)


@nox.session
def sb3(session: nox.Session) -> None:
    """MaskablePPO of sb3-contrib on the game; it brings torch, a large download."""
    install(session, "sb3")
    session.run("pytest", "tests/interop/adapters", "tests/pages", "-k", "sb3 or adapters.md")


@nox.session
def neurogym(session: nox.Session) -> None:
    """The memory tasks beside NeuroGym's, and NeuroGym's in training; brings torch."""
    install(session, "neurogym")
    session.run("pytest", "tests/beside_neurogym", *session.posargs)


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@nox.session
def browser(session: nox.Session) -> None:
    """The page of a game and `hackmatrix-rl ui`, clicked through in a real Chromium."""
    if not any(map(shutil.which, CHROMIUM)) and not chromium_installed(session):
        session.skip(
            "there is no Chromium, and it cannot be installed here (that takes apt-get and root, "
            "or: apt install chromium)"
        )
    install(session, "browser")
    session.run("pytest", "tests/browser", *session.posargs)


def chromium_installed(session: nox.Session) -> bool:
    """Tries to install Debian's Chromium; whether that went well."""
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return False
    session.log("Installing Debian's Chromium: apt-get install chromium")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        done = subprocess.run(["apt-get", *command], env=os.environ | env, check=False)
        if done.returncode != 0:
            return False
    return any(map(shutil.which, CHROMIUM))


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in site/html."""
    install(session, "docs")
    trees = str(Path(session.create_tmp()) / "doctrees")
    # Always anew (-E): a page does not know all files that it is made from.
    how = ("-qWE", "--keep-going", "-j", "auto", "-d", trees, "-c", "docs")
    session.run("sphinx-build", *how, ".", str(SITE))


@nox.session
def pages(session: nox.Session) -> None:
    """Each command and piece of code of README and docs/; then the site that `docs` has built."""
    if not (SITE / "objects.inv").exists():
        session.error(f"there is no {SITE}: nox -s docs builds it")
    install(session, "docs")
    session.run("pytest", "tests/site")
    session.run("pytest", "-n", "2", "tests/pages", *session.posargs)


def build(session: nox.Session, dist: Path) -> Path:
    """Builds the source distribution and the wheel, and checks them; the path of the wheel."""
    session.install("build", "twine")
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    session.run("twine", "check", "--strict", *map(str, sorted(dist.iterdir())))
    (wheel,) = dist.glob("*.whl")
    return wheel


@nox.session
def release(session: nox.Session) -> None:
    """Wheel and source distribution in dist/, and their notes in build/release_notes.md."""
    build(session, DIST)
    version = PYPROJECT["project"]["version"]
    _, *parts = re.split(r"^## (.+)\n", Path("CHANGELOG.md").read_text("utf-8"), flags=re.M)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    title = next((each for each in sections if re.match(rf"\[?{version}\b", each)), "Unreleased")
    notes = Path("build", "release_notes.md")
    notes.parent.mkdir(exist_ok=True)
    notes.write_text(f"# hackmatrix-rl {version}\n\n{sections[title].strip()}\n", "utf-8")
    session.log(f"{notes}: the section {title!r} of CHANGELOG.md; to publish: twine upload dist/*")


@nox.session
def package(session: nox.Session) -> None:
    """Source distribution and wheel: built, checked, small, and tried outside of the repository."""
    folder = Path(session.create_tmp())
    wheel = build(session, folder / "dist")
    session.install(*CONSTRAINTS, str(wheel), "pytest", "uv")
    made = {"HACKMATRIX_RL_DIST": str(wheel.parent.absolute())}
    session.run(
        "pytest",
        "tests/package",
        env=made | {"UV_CONSTRAINT": str(Path("constraints.txt").absolute())},
    )
    session.chdir(folder)
    # `oldest` and `newest` train and play with the installed package; here is its agent.
    session.run("hackmatrix-rl", "--version")
    session.run("python", "-c", "import hackmatrix_rl as hm; print(hm.load('pretrained').config)")


@nox.session
def oldest(session: nox.Session) -> None:
    """The tests with the oldest versions that pyproject.toml allows; `-- smoke` for a few."""
    session.install("uv")
    session.run(
        *("uv", "pip", "install", "--quiet", "--resolution", "lowest-direct"),
        *("--python", str(Path(session.bin, "python")), "-r", "pyproject.toml", "--group", "test"),
    )
    session.install("--no-deps", ".")
    try_version(session)


@nox.session(python=python_here("3.14") or python_here("3.13"))
def newest(session: nox.Session) -> None:
    """The tests with the newest versions there are; `-- smoke` for a few."""
    session.install("--upgrade", ".", *nox.project.dependency_groups(PYPROJECT, "test"))
    try_version(session)


def try_version(session: nox.Session) -> None:
    """A training and an evaluation by the installed command, then tests."""
    run = str(Path(session.create_tmp()) / "run")
    shutil.rmtree(run, ignore_errors=True)
    session.run("hackmatrix-rl", "--version")
    session.run("hackmatrix-rl", "train", "--preset", "debug", "--num-envs", "8", "--run-dir", run)
    session.run("hackmatrix-rl", "train", "--resume-run", run, "--total-timesteps", "4096")
    session.run("hackmatrix-rl", "eval", run, "--episodes", "16")
    tests = "smoke" if "smoke" in session.posargs else "tests"
    session.run("pytest", *PARALLEL, "--session", tests, env=TYPES_CHECKED)


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
        *("pytest", "tests/runs/test_faults.py", "--kills", "40", *session.posargs),
        env={"HACKMATRIX_KILL_SEED": str(time.time_ns())},
    )


@nox.session
def long(session: nox.Session) -> None:
    """Mutants, long trainings and other tests marked nightly; `-- --nightly 2/7` for a part."""
    install(session, "test")
    part = [] if "--nightly" in session.posargs else ["--nightly", "1/1"]
    session.run("pytest", *WAITING, "--session", "all", "-m", "nightly", *part, *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """What takes hours; `.ci/run` has a small part of each, some by the date."""
    for name in ("conformance_full", "matrix", "faults", "fuzz", "oldest", "newest", "docs"):
        session.notify(name)
    session.notify("constraints")
    session.notify("gpu_options")
    for name in ("accelerators", "pages", "examples", "long"):
        session.notify(name, posargs=["--nightly", "1/1"])


@nox.session
def fuzz(session: nox.Session) -> None:
    """Ten minutes of odd input to everything that takes input: `-- --seconds 30`, `-- --seed N`."""
    install(session, "test")
    # The package as it is installed, not what lies in this folder.
    place = {"PYTHONPATH": str(Path("tests").absolute()), "PYTHONSAFEPATH": "1"}
    session.run("python", "-m", "fuzz", *session.posargs, env=place)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, import order, docstrings, formatting, and which room may import which."""
    install(session, "lint", package=False)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session
def constraints(session: nox.Session) -> None:
    """Whether the pins of constraints.txt can be installed on each Python of the classifiers."""
    session.install("uv")
    for python in nox.project.python_versions(PYPROJECT):
        session.run(
            *("uv", "pip", "compile", "--quiet", "--only-binary", ":all:", *CONSTRAINTS),
            # Of 3.11.0 to 3.11.4, some pinned packages are too new.
            *("--python-platform", "linux", "--python-version", f"{python}.9"),
            *("pyproject.toml", "--group", "dev", "--group", "adapters", "-o", os.devnull),
        )


@nox.session
def types(session: nox.Session) -> None:
    """Strict static types on the package."""
    install(session, "types")
    session.run("mypy")
