"""The dashboard of Spark jobs: what their batches bring, what of it was there before, and which driver has stopped."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.panels import Query, board, chosen, latest, lines, number, rate, share

_PUBLISHED, _SUPPRESSED = "oncegate_committed_rows_total", "oncegate_suppressed_rows_total"
_DUPLICATES = "oncegate_duplicates_total"
# Causes that only tasks, batches and attempts of jobs have.
_OF_JOBS = 'cause=~"task_retry|stage_retry|speculation|batch_replay|zombie|other_job"'


def jobs() -> Dashboard:
    """Builds it."""
    return _acks(
        _rows(_now(board("oncegate-jobs", "Oncegate: Spark jobs", "What batches bring, and what holds them.")))
    )


def _grown(name: str, more: str = "") -> str:
    return f"sum(increase({chosen(name, more)}[$__range]))"


def _now(made: Dashboard) -> Dashboard:
    brought = f"({_grown(_PUBLISHED)} + {_grown(_SUPPRESSED)})"
    return (
        made.with_row(Row("Batches"))
        .with_panel(number("Rows published", "By commits, in this range.", "short", _grown(_PUBLISHED)))
        .with_panel(
            number(
                "Rows suppressed",
                "Of those that commits brought in this range, the share that was there before: Spark counts them too.",
                "percentunit",
                share(_grown(_SUPPRESSED), brought),
            )
        )
        .with_panel(
            number(
                "Batches replayed",
                "Commits answered DUPLICATE in this range: the same batch came again, and was not published twice.",
                "short",
                _grown("oncegate_duplicate_commits_total"),
            )
        )
        .with_panel(
            number(
                "Replays that differ",
                "Of these, those with other rows than the first time: the source or the plan does not repeat itself.",
                "short",
                _grown("oncegate_other_replays_total"),
            )
        )
        .with_panel(
            number(
                "Of zombies",
                "Brought in this range by attempts or runs that were given up, and not written.",
                "short",
                _grown(_DUPLICATES, 'cause="zombie"'),
            )
        )
        .with_panel(
            number(
                "Oldest unacked",
                "Batch, since its first claim; growth means a driver that has stopped.",
                "s",
                f"max({chosen('oncegate_unacked_batch_age_seconds')})",
            )
        )
    )


def _rows(made: Dashboard) -> Dashboard:
    return (
        made.with_panel(
            lines(
                "Rows a second, by way to write",
                "Staged by tasks, published by commits, written at once by id or plainly, or by clients.",
                "short",
                Query(rate("oncegate_staged_rows_total"), "{{namespace}} staged"),
                Query(rate(_PUBLISHED), "{{namespace}} published"),
                Query(rate("oncegate_produced_rows_total"), "{{namespace}} at once"),
                Query(rate("oncegate_lane_rows_total"), "{{namespace}} by clients"),
            )
        )
        .with_panel(
            lines(
                "Kept out a second, by what a job did",
                "Rows, ids and sequences: tasks run again, batches replayed, zombies, what another job took.",
                "short",
                Query(rate(_DUPLICATES, "cause", _OF_JOBS), "by {{cause}}"),
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Rows suppressed a second, by whom",
                "By commits, and by clients that ask. Copies: records that say what another says too.",
                "short",
                Query(rate(_SUPPRESSED), "{{namespace}} commits"),
                Query(rate("oncegate_lane_duplicate_ids_total"), "{{namespace}} clients"),
                Query(rate("oncegate_lane_double_records_total"), "{{namespace}} copies"),
            )
        )
        .with_panel(
            lines(
                "Staged and not committed",
                "Bytes that wait for their batch: growth means batches that fail before their commit.",
                "bytes",
                latest("oncegate_stage_bytes"),
            )
        )
    )


def _acks(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Tasks and drivers"))
        .with_panel(
            lines(
                "Claims that end, a second",
                "Completed, released, and taken over from a task that was silent for a whole lease.",
                "short",
                Query(rate("oncegate_completed_claims_total"), "{{namespace}} completed"),
                Query(rate("oncegate_released_claims_total"), "{{namespace}} released"),
                Query(rate("oncegate_takeovers_total"), "{{namespace}} ids taken over"),
            )
        )
        .with_panel(
            lines(
                "Claims that are open",
                "Growth means tasks that die, or that never complete.",
                "short",
                latest("oncegate_open_claims"),
            )
        )
        .with_panel(
            lines(
                "Age of the oldest batch not acked",
                "By namespace; a job that goes on acks each batch behind the next one.",
                "s",
                latest("oncegate_unacked_batch_age_seconds"),
            )
        )
        .with_panel(
            lines(
                "Producers, drivers, sequences not acked",
                "Known now; sequences from the watermarks to the highest claimed, added up.",
                "short",
                latest("oncegate_producers", "{{namespace}} producers"),
                latest("oncegate_drivers", "{{namespace}} drivers"),
                latest("oncegate_unacked_sequences", "{{namespace}} sequences"),
            )
        )
    )
