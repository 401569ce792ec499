"""How much of the peak of its devices a training uses: model FLOP/s utilization, MFU."""

from dataclasses import dataclass

from jax.sharding import Mesh

from hackmatrix_rl.system import peak_flops
from hackmatrix_rl.training.compiled import Operations


@dataclass(frozen=True)
class Utilization:
    """What an update would take at the peak of the devices.

    Source: Chowdhery et al. 2022, "PaLM: scaling language modeling with pathways", appendix B
    (model FLOP/s utilization).

    Attributes:
        operations: floating-point operations of an update, of matrix products and convolutions.
        peak: the most of them that the devices do in a second.
        unknown: why the two are not known, in words; empty if they are.
    """

    operations: float = 0.0
    peak: float = 0.0
    unknown: str = ""

    @classmethod
    def of(cls, operations: Operations | None, mesh: Mesh) -> "Utilization":
        """The utilization of a program with these operations in an update, on a mesh.

        With several dtypes, the peak is the mixture's.
        """
        if operations is None:
            return cls(
                unknown="its products are not counted (a loop without a fixed number of rounds, a "
                "kernel of Pallas, or eager)"
            )
        devices = list(mesh.devices.flat)
        total, seconds = sum(operations.values()), 0.0
        for dtype, count in operations.items():
            if (peak := peak_flops(devices, dtype)) is None:
                return cls(unknown=f"the peak of {devices[0].device_kind} is not known")
            seconds += count / peak
        if not total:
            return cls(unknown="it has no matrix product")
        return cls(total, total / seconds)

    def share(self, updates_per_second: float) -> float | None:
        """The share of the peak at a speed; `None` if it is not known."""
        return None if self.unknown else self.operations * updates_per_second / self.peak
