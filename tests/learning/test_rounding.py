"""What a record adds is made of operations that IEEE 754 rounds correctly, so that no processor finds another bit."""

import ast
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discretion.learning import clipped, followed, outcomes, sums
from discretion.learning.schemas import Discrete, FloatArray, Schema
from discretion.learning.trajectories import Trajectories, block_of

FOLDER = Path(sums.__file__).parent
ROWS = ("reads a patient's value", "evaluates a released value on a record", "turns a state into features")
EXACT = ("self.schema.per_unit", "maps.ONE")  # whole numbers wherever they stand
EXACT_THERE = {("regressions", "self.bound"), ("pooled", "self.clip")}  # elsewhere fields of these names are floats
INEXACT = re.compile(
    "pow|power|float_power|exp(2|m1)?|log(2|10|1p|addexp2?)?|(a|arc)?(sin|cos|tan)h?2?|sinc|hypot|cbrt|gamma|erfc?|(nan)?(mean|std|var)|average"
)


def summing() -> list[str]:
    """The modules through which a record passes on its way to a sum, as CONTRIBUTING.md lists them."""
    lines = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text().splitlines()
    listed = [line for line in lines if any(line.startswith(f"| {row} |") for row in ROWS)]
    assert len(listed) == len(ROWS)
    return ["policy", "rewards", "schemas", *re.findall(r"`(?:learning/)?(\w+)\.py`", "".join(listed))]


def inexact(source: str, module: str = "") -> Iterator[str]:
    """Library functions of which nobody promises the last bit, or the order of adding up; and powers, but for squares,
    which numpy makes by a product if they are of an array, and those of a written number to whole exponents."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="np" | "math"), attr=name) if INEXACT.fullmatch(name):
                yield ast.unparse(node)
            case ast.BinOp(op=ast.Pow(), left=ast.Attribute() as base) if not _is_exact(ast.unparse(base), module):
                yield ast.unparse(node)  # of a field, which is one number: by the C library
            case ast.BinOp(op=ast.Pow(), left=base, right=exponent) if ast.unparse(exponent) != "2":
                written = isinstance(base.operand if isinstance(base, ast.UnaryOp) else base, ast.Constant)
                if not written or any(map(_is_no_integer, ast.walk(exponent))):
                    yield ast.unparse(node)
            case ast.AugAssign(op=ast.Pow()):
                yield ast.unparse(node)


def _is_exact(base: str, module: str) -> bool:
    return base in EXACT or (module, base) in EXACT_THERE


def _is_no_integer(node: ast.AST) -> bool:
    return isinstance(node, ast.Div) or (isinstance(node, ast.Constant) and isinstance(node.value, float))


class TestSources:
    @pytest.mark.parametrize("module", summing())
    def test_nothing_that_a_record_passes_may_round_otherwise_elsewhere(self, module: str) -> None:
        assert not list(inexact((FOLDER / f"{module}.py").read_text(), module))

    @pytest.mark.parametrize(
        "source",
        [
            "r**power",
            "r**4",
            "self.ceiling**2",
            "x**0.5",
            "2.0 ** (k / 4)",
            "2 ** (0.5 * k)",
            "r **= 3",
            "np.exp2(r)",
            "math.tan(r)",
        ],
    )
    def test_and_what_may_is_noticed(self, source: str) -> None:
        assert len(list(inexact(source))) == 1

    @pytest.mark.parametrize(("module", "base"), sorted(EXACT_THERE))
    def test_what_is_exact_in_one_module_is_noticed_in_the_others(self, module: str, base: str) -> None:
        assert not list(inexact(f"{base}**2", module))
        for other in set(summing()) - {module}:
            assert list(inexact(f"{base}**2", other)) == [f"{base} ** 2"]


class TestEdges:
    @pytest.mark.parametrize(("edges", "first", "per_octave"), [(clipped.EDGES, -14, 4), (outcomes.EDGES, -8, 2)])
    def test_no_float_is_closer(self, edges: FloatArray, first: int, per_octave: int) -> None:
        for index, edge in enumerate(edges.tolist()):
            below, above = (Fraction(edge) + Fraction(np.nextafter(edge, end)) for end in (0.0, np.inf))
            exact = Fraction(2) ** (first * per_octave + index)
            assert (below / 2) ** per_octave < exact < (above / 2) ** per_octave

    def test_both_ends_are_edges(self) -> None:
        assert (clipped.EDGES[[0, -1]] == [2.0**clipped.SHORTEST, 2.0**clipped.LONGEST]).all()
        assert (outcomes.EDGES[[0, -1]] == [2.0**-8, 2.0**14]).all()


class TestUnitSizes:
    def test_fourth_powers_are_products(self) -> None:
        """Of rewards whose fourth power is next to a step of the grid, where the last bit decides."""
        rewards = np.sqrt(np.sqrt(np.arange(1, 2000) / followed.ONE))
        wide = 2.0**100  # a range so wide that rewards keep all digits: divided by it they are these again
        schema, nobody = Schema(1, Discrete(1), 1, (0.0, wide)), np.zeros((1, len(rewards)), dtype=np.int64)
        block = block_of(nobody, nobody, wide * rewards[None], final=nobody[0])
        statistic = followed.UnitSizes(followed.Judged(schema, np.zeros((1, 1), dtype=np.int64)))
        square = rewards * rewards
        wanted = np.trunc(square * square * followed.ONE).sum()
        assert sums.totals([statistic], Trajectories(schema, len(rewards), [block]))[0][3] == wanted
