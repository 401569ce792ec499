"""Programs that the TPU's own compiler makes; nothing runs. Needs libtpu."""
