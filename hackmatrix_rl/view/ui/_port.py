"""Where the server listens. Commands say it without JAX."""

PORT = 8337
