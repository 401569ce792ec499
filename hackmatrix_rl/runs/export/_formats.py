"""The formats of an exported agent. Commands list them without importing JAX."""

FORMATS = ("stablehlo", "onnx", "json", "npz")
