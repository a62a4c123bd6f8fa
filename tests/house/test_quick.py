"""``dpspec.quick.dataclass`` makes what the standard library's decorator makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from dpspec import quick


def _family(dataclass: Any) -> dict[str, Any]:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: float
        y: float = 2.0
        tags: list[str] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=3, repr=False, compare=False)
        fixed: int = dataclasses.field(default=4, init=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        a: int
        b: int = 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Child(Base):
        c: tuple[int, ...]

    @dataclass(slots=True)
    class Open:
        v: int = 0

    @dataclass
    class Loose:
        v: int = 0

    @dataclass(frozen=True, slots=True, eq=False)
    class Alone:
        v: int = 0

    @dataclass(frozen=True)
    class Empty:
        pass

    return {k: v for k, v in locals().items() if isinstance(v, type)}


STANDARD, OURS = _family(dataclasses.dataclass), _family(quick.dataclass)
CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "Point": [((1.0,), {}), ((1.0, 5.0), {"tags": ["a"]}), ((), {}), ((-1.0,), {}), ((1.0, 2.0, [], 3, 4), {}), ((1.0,), {"fixed": 1})],
    "Base": [((), {"a": 1}), ((1,), {}), ((), {"a": 1, "b": 2}), ((), {"z": 1})],
    "Child": [((), {"a": 1, "c": (2,)}), ((), {"a": 1})],
    "Open": [((), {}), ((7,), {}), ((7, 8), {})],
    "Loose": [((), {}), ((7,), {})],
    "Alone": [((), {}), ((7,), {})],
    "Empty": [((), {}), ((7,), {})],
}


def _seen(cls: type, args: tuple[Any, ...], words: dict[str, Any]) -> Any:
    """All that can be seen of one call; the kind of the error where there is one."""
    try:
        made, again = cls(*args, **words), cls(*args, **words)
    except (TypeError, ValueError) as error:
        return type(error)
    seen: list[Any] = [repr(made), made == again, made != again, made == 1, [f.name for f in dataclasses.fields(made)]]
    seen += [dataclasses.asdict(made), dataclasses.astuple(made), cls.__match_args__, repr(copy.copy(made)), repr(copy.deepcopy(made))]
    for act in (hash, lambda v: setattr(v, "v", 1), lambda v: setattr(v, "x", 1), lambda v: delattr(v, "x"), lambda v: vars(v)):
        try:
            act(made)
            seen.append("done" if act is hash else repr(made))
        except (TypeError, AttributeError):  # of a class with slots, the standard library refuses a name that is no field by a TypeError
            seen.append("unhashable" if act is hash else "refused")
    for name in ("x", "a", "v"):
        if name in {f.name for f in dataclasses.fields(made)}:
            seen.append(repr(dataclasses.replace(made, **{name: 9})))
    return seen


@pytest.mark.parametrize("name", CALLS)
def test_the_same_as_the_standard_decorator(name: str) -> None:
    for args, words in CALLS[name]:
        assert _seen(OURS[name], args, words) == _seen(STANDARD[name], args, words), (args, words)
    ours, theirs = inspect.signature(OURS[name]), inspect.signature(STANDARD[name])
    assert [(p.name, p.kind, repr(p.default)) for p in ours.parameters.values()] == [
        (p.name, p.kind, repr(p.default)) for p in theirs.parameters.values()
    ]
    for word in ("frozen", "eq"):
        assert getattr(OURS[name].__dataclass_params__, word) == getattr(STANDARD[name].__dataclass_params__, word)


def test_equal_where_the_standard_ones_are() -> None:
    nan = float("nan")
    for family in (STANDARD, OURS):
        point = family["Point"]
        assert point(nan) == point(nan)  # one object, as in a tuple
        assert point(1.0, hidden=1) == point(1.0, hidden=2)
        assert point(1.0) != point(2.0)
        assert family["Base"](a=1) != family["Child"](a=1, c=())
        assert family["Alone"](1) != family["Alone"](1)
        assert hash(family["Base"](a=1)) == hash(family["Base"](a=1))


def test_what_it_refuses() -> None:
    def late() -> None:
        @quick.dataclass
        class _Late:
            a: int = 1
            b: int  # type: ignore[misc]

    def mixed() -> None:
        @quick.dataclass
        class _Mixed(OURS["Base"]):  # type: ignore[misc]
            v: int = 0

    def shared() -> None:
        @quick.dataclass
        class _Shared:
            v: list[int] = []  # noqa: RUF012

    with pytest.raises(TypeError, match="default"):
        late()
    with pytest.raises(TypeError, match="frozen"):
        mixed()
    with pytest.raises(ValueError, match="factory"):
        shared()


def test_values_are_pickled() -> None:
    from dpspec.privacy.calibrated import Budget

    budget = Budget(epsilon="1", delta="1e-6")
    assert pickle.loads(pickle.dumps(budget)) == budget


def test_the_signature_before_a_first_value() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import inspect; from dpspec.privacy.calibrated import Budget; print(inspect.signature(Budget))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "epsilon" in done.stdout
    assert "args" not in done.stdout
