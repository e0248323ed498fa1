"""Generated files of the Helm chart, and the tools that test it."""
