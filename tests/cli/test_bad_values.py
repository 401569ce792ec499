"""Whatever is wrong with what was typed: one line, exit status 2, no traceback."""

import os

import pytest

from .commands import assert_refused, invoke


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["train", "--preset", "gpx"], ["--preset gpx", "auto, cpu, gpu, tpu, debug"]),
        (
            ["train", "--num-envs", "100", "--num-minibatches", "8"],
            ["--num-minibatches 8 does not divide --num-envs 100", "--num-minibatches 10"],
        ),
        (["train", "--num-envs", "many"], ["--num-envs many: must be a whole number."]),
        (["train", "--num-envs", "1.5"], ["--num-envs 1.5: must be a whole number."]),
        (
            ["train", "--algorithm", "ppo", "--clip-coef", "-1"],
            ["--clip-coef -1.0 is too small. Use more than 0."],
        ),
        (["train", "--precision", "f8"], ["--precision f8: unknown; use f32, bf16, f16"]),
        (["train", "--precision", "half"], ["--precision half: 'half' is float16 on a CPU or GPU"]),
        (["train", "--precision", "p=bf16,c=bf16,o=f32"], ["parameters must be float32"]),
        (
            ["train", "--preset", "debug", "--precision-parts", ".head.value*=f32"],
            [
                "--precision-parts .head.value*=f32: the pattern '.head.value*' matches no",
                ".weight",
            ],
        ),
        (["train", "--precision-parts", ".heads"], ["--precision-parts .heads: '.heads' is no"]),
        (
            ["train", "--preset", "tpu", "--precision", "f16"],
            ["--precision", "f16", "no TPU", "--precision bf16"],
        ),
        (["train", "--preset", "gpu"], ["--preset gpu", "JAX sees no GPU here"]),
        (["train", "--device", "tpu"], ["--device tpu", "JAX sees no TPU here"]),
        (["train", "--config", "nothing.toml"], ["--config nothing.toml: No such file"]),
        (["train", "--network", "mpl"], ["--network mpl", "mlp"]),
        (["train", "--network", "nowhere:factory"], ["--network nowhere:factory", "no module"]),
        (
            ["train", "--remat", "blocks"],
            ["--remat blocks: --network cells", "no blocks", "--network residual"],
        ),
        (["train", "--network", "gru", "--depth", "3"], ["--network gru", "no depth"]),
        (["train", "--num-env", "3"], ["--num-env", "--num-envs"]),
        (["train", "--resume-run", "gone"], ["--resume-run gone: no such run", "runs/"]),
        (
            ["train", "--resume-run", "gone", "--preset", "cpu"],
            ["--preset cannot be given with --resume-run", "the options that are to change"],
        ),
        (["train", "--process-id", "1"], ["--coordinator, --num-processes missing"]),
        (["train", "--cpu-devices", "0"], ["--cpu-devices 0 is too small. Use 1 or more."]),
        (["train", "--keep", "0"], ["--keep 0 is too small. Use 1 or more."]),
        (["imitate", "--games", "5"], ["--games 5", "--save-demonstrations FOLDER"]),
        (["analyze", "runner", "--gamma", "nan"], ["--gamma", "0<=x<=1"]),
        (["watch", "runner", "--speed", "nan"], ["--speed", "0.1<=x<=50"]),
        (["verify-resume", "--num-env", "3"], ["--num-env", "--num-envs"]),
        (["eval", "runs/nothing"], ["runs/nothing: no checkpoint there"]),
        (["eval", "a" * 5000], ["it has 5000 characters"]),
        (["report", "a" * 5000], ["it has 5000 characters"]),
        (["eval", "http://x/y"], ["http://x/y: cannot be reached: no kind of storage"]),
        (["train", "--init", "http://x/y"], ["--init http://x/y: ", "no kind of storage"]),
        (["eval", "\ud800"], ["\\ud800: a character is in it that no name can have"]),
        (["train", "--init", "\ud800"], ["--init \\ud800: ", "that no name can have"]),
        (["train", "--run-dir", "\ud800"], ["--run-dir \\ud800: must be text in UTF-8"]),
        (["train", "--checkpoint-dir", "a\udcff"], ["--checkpoint-dir a\\udcff: must be text"]),
        (["eval", "a\0b"], ["control character"]),
        (["train", "--resume-run", "a" * 5000], ["--resume-run aaa", "5000 characters"]),
        (["train", "--config", "a" * 5000], ["--config aaa", "5000 characters"]),
        (["train", "--run-dir", "a" * 5000], ["--run-dir aaa", "5000 characters"]),
        (
            ["train", "--num-envs", "2147483647", "--num-minibatches", "2"],
            ["--num-envs 2147483647 x --num-steps 32", "32 bits"],
        ),
        (["train", "--seed", "9" * 5000], ["--seed", "must be a whole number"]),
        (["train", "--coordinator", "a", "--num-processes", "2", "--process-id", "1"], ["HOST"]),
        (["train", "--connect-timeout", "0"], ["--connect-timeout"]),
        (["train", "--heartbeat-timeout", "10000000000"], ["--heartbeat-timeout"]),
        (["train", "--num-processes", "10000000000"], ["--num-processes"]),
        (["eval", "random", "--episodes", "10000000000"], ["--episodes", "10000000"]),
        (
            ["eval", "random", "--num-envs", "100000000", "--episodes", "10000000"],
            ["--num-envs 10000000: these games need at least"],
        ),
        (["eval", "runner", "--search", "8"], ["--search 8: runner has no network", "pretrained"]),
        (["watch", "expert", "--search", "8"], ["--search 8: expert has no network"]),
        (["analyze", "random", "--search", "8"], ["--search 8: random has no network"]),
        (["eval", "pretrained", "--search", "0"], ["--search 0", "within 1..10000"]),
        (["eval", "pretrained", "--search", "-4"], ["--search -4", "within 1..10000"]),
        (["eval", "pretrained", "--search", "9999999"], ["--search 9999999", "within 1..10000"]),
        (["eval", "pretrained", "--search", "many"], ["--search", "many"]),
        (["eval", "search(pretrained, 30)", "--search", "8"], ["is another search"]),
        (["bench", "--repeats", "10000000000"], ["--repeats"]),
        (["bench", "--full", "--sizes", "9" * 5000], ["--sizes", "not understood"]),
        (["bench", "--json", "a" * 300], ["--json aaa", "255 characters"]),
        (["bench", "--json", "/dev/full"], ["--json /dev/full: is no file"]),
        (["compare", "--precision", "--seeds", "10000000000"], ["--seeds"]),
        (["verify-resume", "--updates", "10000000000"], ["--updates"]),
        (
            ["verify-resume", "--algorithm", "self-play", "--num-envs", "8"],
            ["--num-envs: a setting of hackmatrix-rl train", "hackmatrix-rl selfplay"],
        ),
        (
            ["verify-resume", "--vertices", "5"],
            ["--vertices: a setting of hackmatrix-rl selfplay", "not of hackmatrix-rl train"],
        ),
        (
            ["verify-resume", "--algorithm", "self-play", "--preset", "cpu"],
            ["--preset cpu: --algorithm self-play has none of this name. Use debug."],
        ),
        (["eval"], ["RUN_OR_CHECKPOINT"]),
        (["eval", "random", "--episodes", "0"], ["--episodes"]),
        (["bench", "--json", "no/such/folder.json"], ["no/such/folder.json"]),
        (["traim"], ["traim", "train"]),
    ],
    ids=lambda value: " ".join(value)[:60] if value[0] in ("train", "eval", "bench") else "",
)
def test_a_bad_value_gets_one_line(arguments, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(invoke(*arguments), *parts)
    assert list(tmp_path.iterdir()) == [], "nothing may be left behind"


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    result = invoke("train", "--preset", "debug", "--run-dir", in_the_way / "run")
    assert_refused(result, f"--run-dir {in_the_way / 'run'}: cannot be written")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    result = invoke("train", "--preset", "debug", "--run-dir", tmp_path / "run")
    assert_refused(result, "--run-dir", "cannot be written")


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    result = invoke("train", "--preset", "debug", "--run-dir", tmp_path)
    assert_refused(result, "--run-dir", "holds a run already")
