"""The state of a run after a power failure at any moment: wholly the old one or wholly the new one, and readable."""

from pathlib import Path

import msgspec

from oncegate.verifier import state
from tests.support.recorded_files import RecordedFiles, left


def test_the_state_of_a_run_is_the_whole_old_one_or_the_whole_new_one(tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    recorded, kept = RecordedFiles(root), state.RunState({"of": "this question"}, bytes(32), "token")
    with recorded.recording():
        for rows in (1, 2):
            kept.input_rows = rows
            state.save(root, kept)
    found, states = set[int](), 0
    for _, crashed in recorded.crashes():
        with left(crashed, root, tmp_path / "left") as there:
            file = there / "state.json"
            rows = msgspec.json.decode(file.read_bytes(), type=state.RunState).input_rows if file.exists() else 0
        found.add(rows)
        states += 1
    assert found == {0, 1, 2}
    assert states > 5
