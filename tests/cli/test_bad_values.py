"""Whatever is wrong with what was typed: one line, exit status 2, no traceback, nothing left."""

import errno
import os
import shlex

import pytest

from hackmatrix_rl.system import ExitCode

from .commands import assert_refused, invoke

pytestmark = pytest.mark.smoke

LONG, DIGITS = "a" * 5000, "9" * 5000
DEBUG = "train --preset debug"
PPO = "train --algorithm ppo"
STAGES = f"{PPO} --frontier-share 0.5 --start-stages"
PUZZLES = "train --algorithm supervised --preset debug"
IMITATE = (
    "imitate --preset debug --num-envs 4 --num-steps 8 --width 8 --max-enemies 4 "
    "--max-transmissions 4 --history 1 --updates-per-dispatch 1 --buffer-size 64 --eval-episodes 0"
)
R2D2 = "train --preset debug --algorithm r2d2 --num-envs 8 --sequence-batch-size 8 --run-dir run"
SELF_PLAY = (
    "selfplay --vertices 4 --num-simulations 4 --width 8 --game-batch-size 8 --moves-per-update 4 "
    "--training-batch-size 16 --train-steps 2 --buffer-size 96 --opening 1 --save-interval 1 "
    "--league-games 2 --league-size 2 --keep 100"
)

# What is typed, and parts of what is said, in order.
OF_VALUES = {
    "train --preset gpx": "--preset gpx: unknown. Use auto, cpu, gpu ... Did you mean gpu?",
    "train --preset gpu": "--preset gpu ... JAX sees no GPU here",
    "train --device tpu": "--device tpu ... JAX sees no TPU here",
    "train --num-envs 100 --num-minibatches 8": (
        "--num-minibatches 8 does not divide --num-envs 100 ... "
        "--num-minibatches 5 or --num-minibatches 10, or --num-envs 96"
    ),
    "train --num-envs many": "--num-envs many: must be a whole number.",
    "train --num-envs 1.5": "--num-envs 1.5: must be a whole number.",
    "train --num-envs 2147483647 --num-minibatches 2": (
        "--num-envs 2147483647 x --num-steps 32 ... 32 bits. Use --num-envs 67108863, or fewer"
    ),
    f"train --seed {DIGITS}": "--seed ... must be a whole number",
    f"{PPO} --clip-coef 0": "--clip-coef 0.0 is too small. Use more than 0.",
    "train --cpu-devices 0": "--cpu-devices 0 is too small. Use 1 or more.",
    "train --keep 0": "--keep 0 is too small. Use 1 or more.",
    "train --precision f8": (
        "--precision f8: unknown; use f32, bf16, f16, or a policy of jmp such as "
        "'params=float32,compute=bfloat16,output=float32'."
    ),
    "train --precision half": "--precision half: 'half' is float16 on a CPU or GPU",
    "train --precision p=bf16,c=bf16,o=f32": "parameters must be float32",
    "train --preset tpu --precision f16": "--precision ... f16 ... no TPU ... --precision bf16",
    f"{DEBUG} --precision-parts .head.value*=f32": (
        "--precision-parts .head.value*=f32: the pattern '.head.value*' matches no ... .weight"
    ),
    "train --precision-parts .heads": "--precision-parts .heads: '.heads' is no",
    "train --network mpl": "--network mpl ... mlp",
    "train --network nowhere:factory": "--network nowhere:factory ... no module",
    f"{DEBUG} --network graph": "--network graph: ... plays only the clique game",
    "train --network gru --depth 3": "--network gru ... no depth",
    "train --remat blocks": "--remat blocks: --network cells ... no blocks ... --network residual",
    "train --process-id 1": "--coordinator, --num-processes missing",
    "train --coordinator a --num-processes 2 --process-id 1": "HOST",
    "train --connect-timeout 0": "--connect-timeout",
    "train --heartbeat-timeout 10000000000": "--heartbeat-timeout",
    "train --num-processes 10000000000": "--num-processes",
    f"{PPO} --teacher-kl 0.5": "--teacher-kl 0.5: the teacher is the policy ... Add --init RUN",
    f"{PPO} --critic-warmup-timesteps 100 --total-timesteps 64": (
        "leaves nothing of --total-timesteps 64"
    ),
    f"{PPO} --debug nans --precision f16": (
        "--debug nans would stop at the overflows that the loss scale of float16 provokes on "
        "purpose. Use --precision f32 or --precision bf16 with it."
    ),
    f"{DEBUG} {PPO[6:]} --normalize-observations": (
        "--normalize-observations is for floating-point observations, and this environment has "
        "codes for its encoder. Leave it out."
    ),
    f"{PPO} --aux-every 4": "--aux-every 4 ... --aux-coefficient 0.1",
    f"{PPO} --frontier points": "--frontier points: has no effect ... --frontier-share 0.25",
    f"{PPO} --frontier score": "--frontier score: unknown. Use milestones or points.",
    f"{PPO} --frontier-share 0.99": "--frontier-share 0.99 is too large. Use 0.9 or less.",
    f"{PPO} --frontier-share nan": "--frontier-share nan: must be a finite number.",
    f"{PPO} --start-stages 4:8": "--start-stages 4:8: has no effect ... --frontier-share 0.25",
    f"{STAGES} {DIGITS[:300]}": "not understood. Use two stages of 1 to 8, in order: 4:8.",
    f"{STAGES} 4:9": "--start-stages 4:9: not understood",
    f"{STAGES} 0:3": "--start-stages 0:3: not understood",
    f"{STAGES} 5:4": "--start-stages 5:4: not understood",
    f"{STAGES} 4:8 --frontier points": "--start-stages 4:8 and --frontier points: ... Leave one",
    f"{STAGES} 4 --env cartpole": "cartpole",
    f"{DEBUG} --frontier-share 0.5 --num-envs 12 --num-minibatches 1 --mesh data=1 --dry-run": (
        "--num-envs 12 does not divide into blocks of 8 environments ... use --num-envs 8."
    ),
    f"{PPO} --ent-coef linear:0.9:-1": "--ent-coef -1.0 is too small. Use 0 or more.",
    "train --gamma 1.5": "--gamma 1.5 is too large. Use 1 or less.",
    "train --gamma linear:0.9:1.5": "--gamma 1.5 is too large. Use 1 or less.",
    "train --gamma cosine:nan:0.5": "--gamma nan: must be a finite number.",
    "train --learning-rate 0": "--learning-rate 0.0 is too small. Use more than 0.",
    "train --optimizer adam --momentum 0.9": (
        "--momentum 0.9 is no setting of --optimizer adam, which has beta1, beta2, eps; leave it "
        "out, or --optimizer muon."
    ),
    "selfplay --optimizer lion --eps 1e-8": "--eps 1e-08 is no setting of --optimizer lion",
    "train --tracker wandb,mlflow": "--tracker mlflow: unknown. Use wandb, tensorboard, trackio",
    "train --optimizer adamax": "--optimizer adamax ... adam, adamw",
    "train --remat some": "--remat some ... none, blocks or full",
    f"{DEBUG} --sequence-length 10": (
        "--sequence-length 10: a setting of --algorithm r2d2, and this training is by --algorithm "
        "ppo (the choice of --preset debug). Use --algorithm r2d2, or leave it out."
    ),
    f"{DEBUG} --no-dueling": "--no-dueling: a setting of --algorithm r2d2",
    f"{R2D2} --normalize-observations": "--normalize-observations: a setting of --algorithm ppo",
    "train --algorithm ppoo": "--algorithm ppoo: unknown. Use  ... Did you mean ppo",
    f"{PPO} --minibatch-size 4096 --num-minibatches 8": (
        "--minibatch-size 4096 and --num-minibatches 8 ... Use one of them"
    ),
    f"{PPO} --minibatch-size 1000 --num-envs 96 --num-steps 32": (
        "--minibatch-size 1000 ... --num-envs 96 x --num-steps 32 ... "
        "Use --minibatch-size 768 or --minibatch-size 1024."
    ),
    f"{PPO} --minibatch-size 10000 --num-envs 96 --num-steps 32": "Use --minibatch-size 3072.",
    "train --grad-accum 5 --num-envs 96 --num-minibatches 8": (
        "--grad-accum 5 does not divide the 12 games ... Use --grad-accum 4 or --grad-accum 6."
    ),
    f"{PPO} --num-envs 1024 --num-steps 32 --total-timesteps 1000000000000000000": (
        "updates of 32768 actions, and updates are counted in 32 bits. ... "
        "Use --total-timesteps 70368744144896, or"
    ),
    f"train --mesh data={'9' * 450}": "not understood",
    "train --preset max --algorithm ppo": "--preset max: of --algorithm r2d2",
    "train --preset fast --value-scale compressed": "--value-scale compressed: a setting of",
    "train --preset fast --sequence-length 9000": "--buffer-size 576512 or more",
    "train --preset fast --sequence-batch-size 63": "use --sequence-batch-size 32.",
    "train --preset fast --gamma linear:0.9:0.99": "--gamma linear:0.9:0.99: ",
    "train --preset fast --total-timesteps 10000": "--learning-starts 10000 leaves nothing",
    "train --preset fast --num-envs 536870912": "x --train-freq 4 are 2147483648 actions",
    "train --preset fast --epsilon 0": "--epsilon 0.0 is too small. Use more than 0.",
    "train --target v4-64": "--target v4-64: only plans ... --dry-run",
    "train --dry-run --target v4-65": (
        "--target v4-65: unknown ... v4-8 to v4-1024 ... v5e-1 to v5e-256"
    ),
    "train --dry-run --target 9xh100": "--target 9xh100: a machine has up to 8 GPUs",
    "train --dry-run --resume-run x --target v4-8": "--target v4-8: plans a new run",
    f"{DEBUG} --mesh data=3 --dry-run": "--num-envs 16 ... over 3 devices",
    "train --preset cpu --mesh data=11 --dry-run": (  # which divides no number of games either
        "--mesh data=11: needs 11 devices, but there are 8 cpu devices"
    ),
    "eval random --episodes 0": "--episodes",
    "eval random --episodes 10000000000": "--episodes ... 10000000",
    "eval random --num-envs 100000000 --episodes 10000000": (
        "--num-envs 10000000: these games need at least"
    ),
    "eval runner --search 8": "--search 8: runner has no network ... pretrained",
    "eval pretrained --search 0": "--search 0 ... within 1..10000",
    "eval pretrained --search -4": "--search -4 ... within 1..10000",
    "eval pretrained --search 9999999": "--search 9999999 ... within 1..10000",
    "eval pretrained --search many": "--search ... many",
    "eval 'search(pretrained, 30)' --search 8": "is another search",
    "eval runner --cycles 6 4": "--cycles 6 4: runner has no network ... --network recursive",
    "eval 'search(expert, 30)' --cycles 6 4": "--cycles 6 4: expert has no network",
    "eval pretrained --cycles 6 4": "--cycles 6 4: the network of pretrained is not recursive",
    "eval random --cycles 0 4": "--cycles ... 0 ... 1<=x<=100",
    "eval random --save-replays best": "--save-replays best: best is not understood ... best:5",
    "eval random --save-replays finest:3": ("finest:3 is not understood; write a kind of game"),
    "eval random --save-replays best:5000": "5,000 replays are too many",
    "eval random --replay-dir here": "--replay-dir here needs --save-replays",
    "watch runner --move 3": "--move 3 needs a replay: add --from FILE",
    "watch runner --speed 0": "--speed ... 0.1<=x<=50",
    "watch runner --speed nan": "--speed ... 0.1<=x<=50",
    "watch runner --speed inf": "--speed ... 0.1<=x<=50",
    "watch runner --speed -1": "--speed ... 0.1<=x<=50",
    "watch expert --search 8": "--search 8: expert has no network",
    "play --move 3": "--move 3 needs a replay: add --from FILE.",
    "play --seed x": "--seed",
    "analyze runner --gamma nan": "--gamma ... 0<=x<=1",
    "analyze random --search 8": "--search 8: random has no network",
    "imitate --games 5": "--games 5 ... --save-demonstrations FOLDER",
    "bench --repeats 10000000000": "--repeats",
    f"bench --full --sizes {DIGITS}": "--sizes ... not understood",
    "bench --full --compare pgx": "--full and --compare exclude each other",
    "bench --sizes 64": "--sizes 64 needs --full ... --num-envs",
    "bench --full --sizes 64,many": "--sizes 64,many: not understood ... 64,1024",
    "bench --full --sizes 0": "--sizes 0: not understood",
    "bench --full --sizes 100,2048 --mesh data=8": "--sizes 100 ... multiples of 8",
    "bench --full --sizes 64,100": "--num-minibatches 8 does not divide --sizes 100",
    "compare --precision --seeds 10000000000": "--seeds",
    "verify-resume --updates 10000000000": "--updates",
    "verify-resume --algorithm self-play --num-envs 8": (
        "--num-envs: a setting of hackmatrix-rl train ... hackmatrix-rl selfplay"
    ),
    "verify-resume --vertices 5": (
        "--vertices: a setting of hackmatrix-rl selfplay ... not of hackmatrix-rl train"
    ),
    "verify-resume --algorithm self-play --preset cpu": (
        "--preset cpu: --algorithm self-play has none of this name. Use debug."
    ),
    "verify-resume --algorithm r2d2 --no-keep-buffer": (
        "--no-keep-buffer: a resumed run does not end in the same bits"
    ),
    f"{PUZZLES} --low-cycles 0": "--low-cycles 0 is too small. Use 1 or more.",
    f"{PUZZLES} --high-cycles 0": "--high-cycles 0 is too small. Use 1 or more.",
    f"{PUZZLES} --curriculum-recursion 0.5 --low-cycles 1": (
        "--curriculum-recursion 0.5 ... --low-cycles 1 ends below ... --low-cycles 2 or more"
    ),
    f"{PUZZLES} --curriculum-recursion 0": "--curriculum-recursion 0.0 is too small",
    f"{PUZZLES} --puzzles 8": "--puzzles 8 are fewer than --global-batch-size 16",
    f"{PUZZLES} --size 5": "--size 5: --task sudoku has 4, 6 or 9",
    f"{PUZZLES} --task maze --size 6": "--size 6: --task maze has odd sizes",
    f"{PUZZLES} --task chess": "--task chess: unknown. Use sudoku or maze",
    f"{PUZZLES} --openings 3": "--openings 3: only --task maze has walls",
    f"{PUZZLES} --task maze --size 7 --level hard": "--level hard: only --task sudoku has levels",
    f"{PUZZLES} --task maze --size 5 --puzzles 300 --dry-run": (
        "--puzzles 300 ... after 84 puzzles ... repetitions; use a smaller count, or a larger board"
    ),
    f"{PUZZLES} --halt-exploration linear:0.3:2": "--halt-exploration 2.0 is too large",
    f"{PUZZLES} --eval-interval 5 --eval-puzzles 0": "--eval-interval 5: --eval-puzzles 0",
    f"{PUZZLES} --mesh data=3": (
        "--global-batch-size 16 does not divide over the 3 devices ... use --global-batch-size 15 "
        "or --global-batch-size 18"
    ),
    f"{PUZZLES} --grad-accum 3": "--grad-accum 3 does not divide the 16 rows ... 1, 2, 4, 8 or 16",
    f"{PUZZLES} --heads 3": "--width 16 --heads 3: ... multiple of 2 * heads",
    f"{PUZZLES} --num-envs 8": "--num-envs 8: a setting of --algorithm ... by --algorithm",
    "bench --algorithm supervised --preset debug": "bench measures algorithms that play games",
    "train --algorithm self-play": (
        "--algorithm self-play: has its own command ... hackmatrix-rl selfplay"
    ),
}
OF_R2D2 = {
    "--network cells": "--network cells: policy is a ConvActorCritic without",
    "--buffer-size 2000000000": "use --buffer-size ",
    "--grad-accum 3": "use --grad-accum 1, 2, 4 or 8",
    "--mesh data=3": "--num-envs 8 does not divide over the 3",
}
BASED = (
    "--vary learning_rate=1e-3,1e-2,gamma=0.9,0.99 --pbt-interval 2 --pbt-fraction 0.5 "
    "--pbt-perturb 1.5 --pbt-burn-in 3"
)
OF_SEVERAL = {
    "--vary num_envs=8,16": "num_envs cannot differ ... Use learning_rate, gamma",
    "--vary gamma=0.9": "two values or more ... Use --gamma 0.9 for one",
    "--vary gamma=nan,0.9": "gamma",
    "--vary learning_rate": "expected a setting with its values",
    "--vary gamma=0.9,0.99,ent_coef=0.1": "2 of gamma and 1 of ent_coef",
    "--vary gamma=0.9,2": "--gamma 2.0 is too large",
    "--vary gamma=0.9,linear:0.9:0.99": "--vary gamma= ... estimate.gamma",
    "--seeds 2 --debug nojit": "--seeds 2 ... --debug",
    "--seeds 2 --env hackmatrix": "in stages ... --algorithm",
    "--seeds 2 --offload-optimizer": "--offload-optimizer",
    "--seeds 3 --mesh population=2": "--seeds 3 ... use 4 members",
    "--mesh population=2": "Add --seeds 2",
    "--stop-unhealthy-members": "there is one training ... --seeds 8",
    "--wandb-members": "there is one training ... --seeds 8",
    "--seeds 2 --seed 4294967295": "--seed 4294967296 is too large",
    "--pbt-interval 0": "--pbt-interval 0 ... 1 or more",
    "--pbt-interval 5": "--pbt-interval 5 ... Add --vary",
    "--pbt-interval 5 --seeds 4": "--pbt-interval 5 ... Add --vary",
    "--pbt-metric score": "--pbt-metric score ... Add --pbt-interval",
    "--vary learning_rate=1e-3,1e-2,gamma=0.9,0.99 --pbt-interval 5": (
        "--pbt-fraction 0.25 of 2 ... 4 members or more"
    ),
    f"{BASED} --pbt-fraction 0.6": "--pbt-fraction 0.6 ... 0.5 or less",
    f"{BASED} --pbt-perturb 1": "--pbt-perturb 1.0 ... more than 1",
    f"{BASED} --pbt-resample 2": "--pbt-resample 2.0 ... 1 or less",
    f"{BASED} --pbt-bounds gamma=1": "--pbt-bounds gamma=1 ... =1e-5:1e-2",
    f"{BASED} --pbt-bounds x=0:1": "--pbt-bounds ... x does not differ",
    f"{BASED} --pbt-metric score": "--pbt-metric score ... length ... return",
    f"{BASED} --vary gamma=0.9,0.9": "--pbt-interval 2 ... nothing to explore",
}
# Flags of `imitate` and of `selfplay`, in small trainings.
OF_IMITATE = {
    "": "--algorithm imitation needs a player ... --teacher runner",
    "--teacher nobody": "--teacher nobody ... no checkpoint there ... random, runner, expert",
    "--algorithm ppo": "--algorithm ... a flag of hackmatrix-rl train",
    "--teacher runner --buffer-size 3": (
        "--buffer-size 3 ... (--num-envs 4 x --num-steps 8) ... --buffer-size 32"
    ),
    "--teacher runner --network gru": "--network gru ... --no-symmetries",
    "--teacher runner --target-kl 1": "--target-kl ... a flag of hackmatrix-rl train",
    "--teacher runner --teacher-games 2": "--teacher-games 2.0 ... 1 or less",
    "--teacher expert --soft-labels": "--soft-labels ... --teacher expert ... a run",
    "--teacher runner --teacher-search 8": "--teacher-search 8 ... no network",
    "--teacher expert --teacher-search 0": "--teacher-search 0 ... 1 or more",
}
OF_SELF_PLAY = {
    "--k 5": "--k 5 ... 4 vertices ... --k 4",
    "--k 6": "--k 6 ... 4 vertices ... --k 4",
    "--k 7": "--k 7 ... 6 or less",
    "--vertices 19": "--vertices 19 ... 18 or less",
    "--objective avoid --full-board second-wins": (
        "--full-board second-wins does not go with --objective avoid ... use --full-board draw"
    ),
    "--objective lose": "--objective lose ... avoid",
    "--num-simulations 0": "--num-simulations 0 ... 1 or more",
    "--simulations-second 0": "--simulations-second 0 ... 1 or more",
    "--opening 6": "--opening 6 ... 6 edges",
    "--training-batch-size 12": "--training-batch-size 12 ... --game-batch-size 8",
    "--mesh data=3": "--game-batch-size 8 ... 3 devices",
    "--mesh data=2 --game-batch-size 7 --training-batch-size 512": (
        "--game-batch-size 7 do not fit ... use --game-batch-size 8."
    ),
    "--mesh data=2 --game-batch-size 7 --training-batch-size 21": (
        "7 does not divide ... use --game-batch-size 8 and --training-batch-size 16, or fewer"
    ),
    "--num-envs 64": "--num-envs ... Use --game-batch-size.",
    "--num-steps 64": "--num-steps ... Use --moves-per-update.",
    "--buffer-size 3": "--buffer-size 3 ... 32 positions",
    "--league-games 3": "--league-games 3 ... --league-games 4",
    "--network gru": "--network gru ... memory",
    "--network nothing": "--network nothing ... mlp",
    "--full-board lost": "--full-board lost ... second-wins",
    "--preset cpu": "--preset ... hackmatrix-rl train",
    "--show-game --dry-run": "--show-game ... --dry-run",
    "--num-simulations 100000 --game-batch-size 1048576 --training-batch-size 1048576 "
    "--buffer-size 8388608": "--num-simulations 100000 ... --game-batch-size 1048576 ... a smaller",
    "--fast-simulations 8": "--fast-simulations 8: needs --full-search-share, too. Use",
    "--full-search-share 0.5": "--full-search-share 0.5: needs --fast-simulations, too. Use",
    "--full-search-share 1.5 --fast-simulations 2": "--full-search-share 1.5",
    "--full-search-share 0 --fast-simulations 2": "--full-search-share 0",
    "--full-search-share 0.5 --fast-simulations 80": (
        "--fast-simulations 80 is more than the --num-simulations 4"
    ),
    "--gate 0.55": "--gate 0.55: needs --gate-games and --gate-interval, too. Use --gate-games",
    "--gate-games 4": "--gate-games 4: needs --gate and --gate-interval, too.",
    "--gate 1.5 --gate-games 4 --gate-interval 1": "--gate 1.5",
    "--gate 0.55 --gate-games 5 --gate-interval 1": "--gate-games 5 is odd ... use --gate-games 6",
    "--value-mix 2": "--value-mix 2",
    "--surprise-weight -0.5": "--surprise-weight -0.5",
}
OF_PLACES = {
    "train --config nothing.toml": "--config nothing.toml: No such file",
    f"train --config {LONG}": "--config aaa ... 5000 characters",
    "train --resume-run gone": "--resume-run gone: no such run ... runs/",
    f"train --resume-run {LONG}": "--resume-run aaa ... 5000 characters",
    "train --resume-run gone --preset cpu": (
        "--preset cannot be given with --resume-run ... Give the options to change instead"
    ),
    f"train --run-dir {LONG}": "--run-dir aaa ... 5000 characters",
    r"train --preset debug --run-dir 'a\b' --dry-run": r"'a\\b' holds a separator",
    r"train --preset debug --run-dir 'a\b/c'": (
        r"--run-dir a\b/c/checkpoints: cannot keep checkpoints: ... a backslash"
    ),
    r"selfplay --run-dir 'a\b'": r"'a\\b' holds a separator",
    "train --preset debug --checkpoint-dir 'gs://b/run[1]'": (
        "--checkpoint-dir gs://b/run[1]: cannot keep checkpoints: its name has a ["
    ),
    "train --run-dir \ud800": "--run-dir \\ud800: must be text in UTF-8",
    "train --checkpoint-dir a\udcff": "--checkpoint-dir a\\udcff: must be text",
    "train --init http://x/y": "--init http://x/y:  ... no kind of storage",
    "train --init \ud800": "--init \\ud800:  ... that no name can have",
    "train --algorithm ppo --init runs/nowhere": "--init runs/nowhere: ",
    "eval runs/nothing": "runs/nothing: no checkpoint there",
    "eval 'search(expertt, 30)'": "expertt: no checkpoint there",
    f"eval {LONG}": "it has 5000 characters",
    "eval http://x/y": "http://x/y: cannot be reached: no kind of storage",
    "eval \ud800": "\\ud800: a character is in it that no name can have",
    "eval a\0b": "control character",
    "watch nobody": "nobody: no checkpoint there",
    "watch \udc80\ud800": r"\udc80\ud800",
    "watch runner --from none.json": "none.json: there is no such file",
    "watch runner --from \udc80": r"\udc80: there is no such file",
    "watch runner --html game.txt": "--html game.txt: the name must end with .html",
    "watch runner --save none/game.json": "--save none/game.json: there is no",
    "replay none.json": "none.json: there is no such file",
    "play --from none": "there is no such file",
    "play --save no/f": "--save ... no folder",
    "play --agent nobody": "nobody",
    "analyze nobody": "nobody",
    "analyze runner --output missing/page.html": "--output",
    f"report {LONG}": "it has 5000 characters",
    "report .": ".: holds no run",
    "report gone": "gone: holds no run",
    "report . --output nowhere/page.html": "--output ... there is no folder",
    f"bench --json {'a' * 300}": "--json aaa ... 255 characters",
    "bench --json /dev/full": "--json /dev/full: is not a file",
    "bench --json no/such/folder.json": "no/such/folder.json",
    "bench --full --json nowhere/full.json": "--json ... there is no folder nowhere",
}
OF_ENVIRONMENTS = {
    "--env cartpoel": "--env cartpoel: unknown ... gymnax:NAME ... Did you mean cartpole?",
    "--env no_such_module:make": "no module 'no_such_module'",
    "--env t_maze --env-args corridr=3": "corridor=20 ... Did you mean corridor?",
    "--env t_maze --env-args corridor=long": "corridor=long: must be a whole",
    "--env t_maze --env-args corridor=0": "--env-args corridor=0 ... corridor",
    "--env ready_set_go --env-args shortest=9,longest=8": "longest=8: longest is 8; expected shor",
    "--env t_maze --env-args corridor": "corridor is no new name=value",
    "--env-args corridor=3": "--env-args corridor=3 ... --league",
    "--env cartpole --league original": "--league original ... --env cartpole",
    "--env cartpole --reward victory=1": "--reward victory=1: a setting of",
    "--env cartpole --algorithm imitation": "--algorithm imitation needs",
}
OF_COMMANDS = {
    "eval": "RUN_OR_CHECKPOINT",
    "traim": "traim ... train",
    "train --num-env 3": "--num-env ... --num-envs",
    "verify-resume --num-env 3": "--num-env ... --num-envs",
}


REFUSED = OF_VALUES | OF_PLACES | OF_COMMANDS
REFUSED |= {f"train {flags} --dry-run": said for flags, said in OF_ENVIRONMENTS.items()}
REFUSED |= {f"{R2D2} {flags}": said for flags, said in OF_R2D2.items()}
REFUSED |= {f"train --env cartpole {flags}": said for flags, said in OF_SEVERAL.items()}
REFUSED |= {f"{IMITATE} --run-dir run {flags}": said for flags, said in OF_IMITATE.items()}
REFUSED |= {f"{SELF_PLAY} --run-dir run {flags}": said for flags, said in OF_SELF_PLAY.items()}


@pytest.mark.parametrize("typed", REFUSED, ids=lambda typed: ascii(typed[:60]))
def test_a_bad_value_gets_one_line(typed, here, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.view.terminal.check_terminal", lambda command: None)
    monkeypatch.setattr("hackmatrix_rl.training.Trainer.trace", None)  # before it compiles
    assert_refused(invoke(*shlex.split(typed)), *REFUSED[typed].split(" ... "))
    assert list(here.iterdir()) == [], "nothing may be left behind"


@pytest.mark.parametrize("typed", ["train", "eval pretrained"])
def test_a_working_directory_that_is_gone_is_said(tmp_path, monkeypatch, typed):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert_refused(invoke(*typed.split()), "the working directory was removed")


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("option", ["--run-dir", "--checkpoint-dir"])
def test_a_folder_that_cannot_be_had_is_named(tmp_path, option, dry):
    (tmp_path / "file").write_text("")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.json").write_text("{}")
    places = {"file/run": f"{tmp_path / 'file'}", "taken": f"{tmp_path / 'taken'}: holds a run"}
    for place, said in places.items():
        refused = invoke("train", "--preset", "debug", option, tmp_path / place, *dry)
        assert_refused(refused, f"{option} {said}")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "taken"}


@pytest.mark.parametrize(
    ("place", "said"),
    [("_folder.write_json", "--run-dir run: cannot"), ("_launch.compose", "file: cannot")],
    ids=["of the run", "of anything"],
)
def test_a_full_disk_ends_a_command_with_a_line_and_the_status_that_starts_it_again(
    here, monkeypatch, place, said
):
    """The restart script of docs/checkpoints.md gives up at 2."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "file")

    monkeypatch.setattr(f"hackmatrix_rl.runs.{place}", full)
    result = invoke("train", "--preset", "debug", "--run-dir", "run")
    assert result.exit_code == ExitCode.UNSAVED
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {said}")
    assert "No space left on device" in line
    assert list(here.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    result = invoke("train", "--preset", "debug", "--run-dir", tmp_path / "run")
    assert_refused(result, "--run-dir", "cannot be written")
