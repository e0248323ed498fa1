"""The matrix: nine faults against five ways to write, on five kinds of jobs: `python -m demo.matrix`."""
