"""The file of keys after a power failure at any moment: the old keys or the new ones, and the new ones once written."""

from pathlib import Path

from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from tests.support.recorded_files import RecordedFiles, left


def test_the_file_of_keys_is_the_old_or_the_new_and_the_new_once_it_is_written(tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    recorded, file = RecordedFiles(root), root / "keys.json"
    kept, known = [], [set[str]()]
    with recorded.recording():
        for name in ("first", "second", "third"):
            kept.append(keys.made(name, [Role.WRITE], ["*"], 0)[0])
            keys.write(file, kept)
            known.append({key.name for key in kept})
            recorded.note(name)
    states = 0
    for notes, state in recorded.crashes():
        with left(state, root, tmp_path / "left") as there:
            file = there / "keys.json"
            found = {key.name for key in keys.read(file).values()} if file.exists() else set()
        assert found in known[len(notes) : len(notes) + 2], notes
        states += 1
    assert states > 20
