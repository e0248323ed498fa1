"""Edits of the syntax tree that plant bugs."""

import ast

import pytest

from tests.mutants.edits import (
    Edit,
    Text,
    cell,
    delete,
    insert,
    move,
    replace,
    replace_statement,
    reword,
    shift,
    swap,
    without,
)

SOURCE = """
LIMITS: dict[str, int] = {"a": 1, "b": 2}
OTHERS = {"a": 3}


class Store:
    def add(self, key):
        # a comment
        if (
            self.count
            >= self.limit
        ):
            raise Full("the store is full", self.count, retry=True)
        self.write(key, sync=True)
        self.seen.add(key)
        return len(self.seen)

    async def close(self):
        await self.flush()
        await self.release()
        self.count -= 1
        self.count -= 1
"""
ADD, CLOSE = "m::Store.add", "m::Store.close"
FLUSH, RELEASE = "        await self.flush()\n", "        await self.release()\n"
LESS = "        self.count -= 1\n"
CONDITION = "self.count\n            >= self.limit"


@pytest.mark.parametrize(
    ("address", "edit", "old", "new"),
    [
        (ADD, delete("self.write(...)"), "self.write(key, sync=True)", "pass"),
        (ADD, delete("if self.count >= _:\n    ..."), SOURCE[SOURCE.index("if (") : SOURCE.index("self.write")], "pass\n        "),
        (CLOSE, delete("self.count -= 1", nth=2), LESS + LESS, LESS + "        pass\n"),
        (ADD, replace("self.count >= _", "False"), CONDITION, "False"),
        (ADD, shift("self.count >= self.limit"), CONDITION, "self.count > self.limit"),
        (ADD, replace_statement("return _", "self.close()\nreturn 0"), "return len(self.seen)", "self.close()\n        return 0"),
        (ADD, insert("log()", before="return _"), "        return", "        log()\n        return"),
        (ADD, insert("log()", after="self.seen.add(...)"), "        return", "        log()\n        return"),
        (ADD, without("retry="), ", retry=True", ""),
        (ADD, without("self.count"), '"the store is full", self.count', '"the store is full"'),
        (ADD, reword("is full", "has room"), "is full", "has room"),
        ("m::LIMITS", cell("'a'", "5"), '"a": 1', '"a": 5'),
        ("m::LIMITS", without("'b'"), ', "b": 2', ""),
        (CLOSE, swap("await self.flush()", "await self.release()"), FLUSH + RELEASE, RELEASE + FLUSH),
        (CLOSE, move("await self.release()", before="await self.flush()"), FLUSH + RELEASE, RELEASE + FLUSH + "        pass\n"),
        (CLOSE, move("await self.flush()", after="await self.release()"), FLUSH + RELEASE, "        pass\n" + RELEASE + FLUSH),
    ],
)  # fmt: skip
def test_an_edit_changes_one_place(address: str, edit: Edit, old: str, new: str) -> None:
    assert SOURCE.count(old) == 1
    assert edit.apply(SOURCE, address) == ast.unparse(ast.parse(SOURCE.replace(old, new))) + "\n"


@pytest.mark.parametrize(
    ("address", "edit", "reason"),
    [
        (ADD, delete("self.flush()"), "0 times"),
        (CLOSE, delete("self.count -= 1"), "2 times"),
        (CLOSE, delete("self.count -= 1", nth=3), "2 times"),
        ("m::Store.open", delete("self.flush()"), "there is no open"),
        ("m", delete("await self.flush()"), "0 times"),
        ("m::LIMITS", cell("'c'", "5"), "0 times the key"),
        ("m", cell("'a'", "5"), "2 times the key"),
        (ADD, without("sync"), "0 times the item"),
        (ADD, reword("the store is empty", ""), "0 strings"),
        ("m.yaml", Text("self.count -= 1", ""), "2 times"),
    ],
)
def test_an_edit_without_a_place_or_with_several_is_refused(address: str, edit: Edit | Text, reason: str) -> None:
    with pytest.raises(LookupError, match=reason):
        edit.apply(SOURCE, address)


def test_an_edit_that_takes_a_comparison_out_has_a_neighbour_that_shifts_it() -> None:
    ((comparison, shifted),) = replace("self.count >= _", "False").neighbours
    assert comparison == "self.count >= _"
    assert shifted.apply(SOURCE, ADD) == shift("self.count >= self.limit").apply(SOURCE, ADD)
    assert replace("self.count >= self.limit", "self.count >= self.limit and retry").neighbours == ()


def test_an_edit_does_not_see_line_breaks_and_comments() -> None:
    laid_out = SOURCE.replace(
        "self.write(key, sync=True)", "self.write(  # now\n            key,\n            sync=True,\n        )"
    )
    edit = without("sync=")
    assert edit.apply(laid_out, ADD) == edit.apply(SOURCE, ADD)


def test_an_address_without_a_module_is_refused() -> None:
    assert delete("x").path("oncegate.engine.admission::Backlog") == "service/oncegate/engine/admission.py"
    assert delete("x").path("oncegate_spark") == "spark_client/oncegate_spark/__init__.py"
    with pytest.raises(LookupError, match="there is no module oncegate/nowhere"):
        delete("x").path("oncegate.nowhere::x")
