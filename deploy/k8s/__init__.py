"""What the chart's files say of each other, and the tools that try it."""
