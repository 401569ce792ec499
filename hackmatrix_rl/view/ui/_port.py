"""The server's default port, which `--help` imports without JAX."""

PORT = 8337
