"""Batches that are drawn from environments in blocks, each device from its own."""

from dataclasses import dataclass

from jax.sharding import Mesh

from hackmatrix_rl.errors import ArgumentError
from hackmatrix_rl.training.sharding._mesh import divisors, mesh_of


@dataclass(frozen=True)
class Blocks:
    """Blocks of environments, each of which gives as many samples to a batch.

    Attributes:
        owners: name of the number of environments, for messages: `num_envs`.
        envs: number of environments.
        batch_name: name of the number of samples.
        batch: number of samples.
    """

    owners: str
    envs: int
    batch_name: str
    batch: int

    def check(self, *, environments: str, samples: str, devices: int = 1) -> None:
        """Raises a ValueError unless one number divides the other.

        `environments` and `samples` are what messages call them; the advice is for `devices`.
        """
        small, large = sorted((self.envs, self.batch))
        if large % small:
            raise ArgumentError(
                f"{{{self.batch_name}}} and {{{self.owners}}} do not fit: one must divide the "
                f"other, so that each of the {environments} gives as many {samples}; use "
                f"{self._near(devices)}",
                **{self.batch_name: self.batch, self.owners: self.envs},
            )

    @property
    def number(self) -> int:
        """Number of blocks."""
        return min(self.envs, self.batch)

    @property
    def of_each(self) -> int:
        """Samples of a batch from each block."""
        return self.batch // self.number

    def mesh_for(self, given: Mesh | str | None, *, grad_accum: int, samples: str) -> Mesh:
        """The mesh that an argument is, or that its text describes; one device for `None`.

        Raises:
            TypeError: it is neither a mesh nor a text.
            ValueError: the devices here cannot form the mesh, the blocks do not divide over it, or
                the samples of a device not into `grad_accum` parts.
        """
        made = mesh_of(given)
        if self.number % made.size:
            name = self.owners if self.number == self.envs else self.batch_name
            sizes = {name: self.number, self.owners: self.envs, self.batch_name: self.batch}
            raise ArgumentError(
                f"{{{name}}} does not divide over the {made.size} devices of the mesh; use "
                f"{self._near(made.size)}, or fewer devices",
                **sizes,
            )
        on_one = self.batch // made.size
        if on_one % grad_accum:
            fit = " or ".join(", ".join(map(str, divisors(on_one))).rsplit(", ", 1))
            raise ArgumentError(
                f"{{grad_accum}} does not divide the {on_one} {samples} that each device has of "
                f"{{{self.batch_name}}}; use {{grad_accum:={fit}}}",
                **{"grad_accum": grad_accum, self.batch_name: self.batch},
            )
        return made

    def _near(self, devices: int) -> str:
        """Numbers near these that fit each other and the devices, for an `ArgumentError`."""
        envs = -(-self.envs // devices) * devices
        batch = self.batch // envs * envs
        if not batch:
            sizes = range(devices, self.batch + 1, devices)
            batch = max((size for size in sizes if envs % size == 0), default=devices)
        named = {self.owners: (envs, self.envs), self.batch_name: (batch, self.batch)}
        return " and ".join(
            f"{{{name}:={new}}}" for name, (new, old) in named.items() if new != old
        )
