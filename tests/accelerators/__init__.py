"""Programs that the compilers of TPUs and GPUs make; nothing runs."""
