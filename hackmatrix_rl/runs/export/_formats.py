"""The formats of an exported agent. Commands list them without JAX."""

FORMATS = ("stablehlo", "onnx", "json", "npz")
"""The formats, by name."""
