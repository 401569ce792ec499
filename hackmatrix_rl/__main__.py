"""`python -m hackmatrix_rl` is `hackmatrix-rl`."""

from hackmatrix_rl.cli.main import main

if __name__ == "__main__":
    main(prog_name="hackmatrix-rl")
