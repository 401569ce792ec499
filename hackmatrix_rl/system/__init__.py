"""The machine: devices, processes, files, memory, signals, versions of other packages."""

from hackmatrix_rl.system._compatibility import cpu_options, untested_version, wandb_timeouts
from hackmatrix_rl.system._compilation_cache import enable_compilation_cache
from hackmatrix_rl.system._deadline import within
from hackmatrix_rl.system._determinism import make_deterministic
from hackmatrix_rl.system._devices import (
    chosen_devices,
    cut_cpu,
    describe_device,
    select_device,
    unseen_accelerator,
    why_device,
)
from hackmatrix_rl.system._exit_codes import ExitCode
from hackmatrix_rl.system._files import (
    is_remote,
    open_regular,
    read_bounded,
    read_json,
    set_aside,
    write_json,
    write_whole,
)
from hackmatrix_rl.system._hosts import (
    HEARTBEAT_SECONDS,
    Requests,
    agree,
    any_process,
    check_same,
    check_shared,
    connect,
    disconnect,
    ending_with_the_others,
    is_process_zero,
    is_single_process,
    leave,
    on_process_zero,
    process_index,
)
from hackmatrix_rl.system._interrupts import Interrupts
from hackmatrix_rl.system._memory import available_memory, bytes_of, format_bytes, size_of
from hackmatrix_rl.system._paths import check_output_file, check_path, storage_path
from hackmatrix_rl.system._rendezvous import CONNECT_SECONDS
from hackmatrix_rl.system._ticking import compiling, ticking
from hackmatrix_rl.system._usage import Usage, peak_memory, usable_cores

__all__ = [
    "CONNECT_SECONDS",
    "HEARTBEAT_SECONDS",
    "ExitCode",
    "Interrupts",
    "Requests",
    "Usage",
    "agree",
    "any_process",
    "available_memory",
    "bytes_of",
    "check_output_file",
    "check_path",
    "check_same",
    "check_shared",
    "chosen_devices",
    "compiling",
    "connect",
    "cpu_options",
    "cut_cpu",
    "describe_device",
    "disconnect",
    "enable_compilation_cache",
    "ending_with_the_others",
    "format_bytes",
    "is_process_zero",
    "is_remote",
    "is_single_process",
    "leave",
    "make_deterministic",
    "on_process_zero",
    "open_regular",
    "peak_memory",
    "process_index",
    "read_bounded",
    "read_json",
    "select_device",
    "set_aside",
    "size_of",
    "storage_path",
    "ticking",
    "unseen_accelerator",
    "untested_version",
    "usable_cores",
    "wandb_timeouts",
    "why_device",
    "within",
    "write_json",
    "write_whole",
]
