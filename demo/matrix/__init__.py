"""The matrix, `python -m demo.matrix`: nine faults against five ways to write, on five kinds of jobs."""
