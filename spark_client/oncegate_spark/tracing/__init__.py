"""The trace that a call is part of, and a span for a task; OpenTelemetry is no dependency."""
