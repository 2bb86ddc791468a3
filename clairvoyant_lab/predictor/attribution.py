"""Exact contributions of features to a sum of trees: Shapley values against one reference row.

For a single reference the Shapley values of a tree ensemble have a closed form, leaf by leaf: a leaf with
value w that needs a features from the row and b from the reference gives each of the first w · (a-1)! b!
/ (a+b)!, and takes w · a! (b-1)! / (a+b)! from each of the second. The values add up to f(row) -
f(reference) exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Leaves", "read_leaves", "shapley_values"]


@dataclass(frozen=True)
class Leaves:
    """All leaves of an ensemble with the box of features that leads to each.

    Attributes
    ----------
    low, high : ndarray of float32, shape (leaves, features)
        A row reaches the leaf iff low <= row < high for every feature.
    value : ndarray of float64, shape (leaves,)
        What the leaf adds.
    base : float
        What is added to every row.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    value: NDArray[np.float64]
    base: float

    def total(self, row: NDArray[np.float32]) -> float:
        """Sum of the leaves that a row reaches."""
        reached = ((self.low <= row) & (row < self.high)).all(axis=1)
        return float(self.value[reached].sum() + self.base)


def read_leaves(node: Any, n_features: int, class_weights: Mapping[int, float]) -> Leaves:
    """Read a tree-ensemble node of an ONNX graph.

    Parameters
    ----------
    node : onnx.NodeProto
        TreeEnsembleClassifier or TreeEnsembleRegressor with `<` splits.
    n_features : int
        Columns of its input.
    class_weights : mapping of int to float
        Factor of each class's leaves; `{0: 1.0}` for a single sum.
    """
    from onnx import helper

    known = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    prefix = "class" if node.op_type == "TreeEnsembleClassifier" else "target"
    owner: dict[tuple[int, int], float] = {}
    for tree, place, kind, weight in zip(
        known[f"{prefix}_treeids"],
        known[f"{prefix}_nodeids"],
        known[f"{prefix}_ids"],
        known[f"{prefix}_weights"],
        strict=True,
    ):
        owner[tree, place] = owner.get((tree, place), 0.0) + weight * class_weights.get(kind, 0.0)
    nodes = {
        (tree, place): (mode, feature, value, yes, no)
        for tree, place, mode, feature, value, yes, no in zip(
            known["nodes_treeids"],
            known["nodes_nodeids"],
            known["nodes_modes"],
            known["nodes_featureids"],
            known["nodes_values"],
            known["nodes_truenodeids"],
            known["nodes_falsenodeids"],
            strict=True,
        )
    }
    lows, highs, values = [], [], []
    open_low = np.full(n_features, -np.inf, np.float32)
    open_high = np.full(n_features, np.inf, np.float32)
    for tree in dict.fromkeys(known["nodes_treeids"]):
        stack = [(0, open_low, open_high)]
        while stack:
            place, low, high = stack.pop()
            mode, feature, value, yes, no = nodes[tree, place]
            if mode == b"LEAF":
                if owner.get((tree, place)):
                    lows.append(low)
                    highs.append(high)
                    values.append(owner[tree, place])
                continue
            if mode != b"BRANCH_LT":
                raise ValueError(f"split mode {mode!r} is not <")
            left, right = high.copy(), low.copy()
            left[feature] = min(left[feature], np.float32(value))
            right[feature] = max(right[feature], np.float32(value))
            stack += [(yes, low, left), (no, right, high)]
    base_values = known.get("base_values", [0.0])
    base = sum(
        weight * base_values[kind] for kind, weight in class_weights.items() if kind < len(base_values)
    )
    return Leaves(
        np.array(lows, np.float32).reshape(-1, n_features),
        np.array(highs, np.float32).reshape(-1, n_features),
        np.array(values, np.float64),
        float(base),
    )


def shapley_values(
    leaves: Leaves, row: NDArray[np.float32], reference: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Contribution of each feature to f(row) - f(reference), shape (features,)."""
    by_row = (leaves.low <= row) & (row < leaves.high)
    by_reference = (leaves.low <= reference) & (reference < leaves.high)
    reachable = (by_row | by_reference).all(axis=1)
    from_row, from_reference = by_row & ~by_reference, by_reference & ~by_row
    out = np.zeros(row.size)
    for leaf in np.flatnonzero(reachable):
        mine, theirs = np.flatnonzero(from_row[leaf]), np.flatnonzero(from_reference[leaf])
        a, b = mine.size, theirs.size
        if a:
            out[mine] += (
                leaves.value[leaf] * math.factorial(a - 1) * math.factorial(b) / math.factorial(a + b)
            )
        if b:
            out[theirs] -= (
                leaves.value[leaf] * math.factorial(a) * math.factorial(b - 1) / math.factorial(a + b)
            )
    return out
