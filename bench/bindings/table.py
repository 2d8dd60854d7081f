"""Cells, bars and tables, in the words of bench/report.cpp."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from statistics import median
from typing import Any


def shown(value: float) -> str:
    size = abs(value)
    if size == 0:
        return "0"
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 4}f}"


def spread(values: list[float]) -> str:
    return f" ({shown(min(values))}..{shown(max(values))})" if len(values) > 1 else ""


@dataclass
class Cell:
    variant: str
    metric: str
    unit: str
    ours: list[float]
    rival: str = ""
    theirs: list[float] = field(default_factory=list)
    bar: str = ""
    value: float | None = None

    @property
    def ratios(self) -> list[float]:
        """Of each round."""
        return [a / b for a, b in zip(self.ours, self.theirs)]

    @property
    def counts(self) -> float:
        return median(self.ratios or self.ours)

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.counts <= self.value if self.bar == "<=" else self.counts >= self.value

    @property
    def wanted(self) -> str:
        return "" if self.value is None else f"{self.bar} {shown(self.value)}"

    def line(self) -> str:
        out = f"  {self.variant}, {self.metric}: pgwake {shown(median(self.ours))} {self.unit}{spread(self.ours)}"
        if self.rival:
            out += f" | {self.rival} {shown(median(self.theirs))}{spread(self.theirs)}"
            out += f" | ratio {shown(self.counts)}{spread(self.ratios)}"
        return out + (f" | bar {self.wanted} {'met' if self.met else 'NOT MET'}" if self.wanted else "")

    def row(self) -> str:
        words = [self.variant, f"{self.metric}, {self.unit}", shown(median(self.ours))]
        words += [f"{self.rival} {shown(median(self.theirs))}" if self.rival else ""]
        words += [shown(self.counts) + spread(self.ratios) if self.rival else ""]
        words += [f"{self.wanted}, {'met' if self.met else 'not met'}" if self.wanted else ""]
        return "| " + " | ".join(words) + " |"

    def json(self) -> dict[str, Any]:
        out = {"variant": self.variant, "metric": self.metric, "unit": self.unit, "values": self.ours}
        if self.rival:
            out |= {"rival": self.rival, "rival_values": self.theirs, "ratio": self.counts}
        return out | ({"bar": self.wanted, "met": self.met} if self.wanted else {})


class Report:
    def __init__(self, folder: str, machine: str) -> None:
        self._folder = folder
        self._machine = machine
        self._cells: list[Cell] = []

    def add(self, cell: Cell) -> None:
        print(cell.line(), flush=True)
        self._cells.append(cell)

    def end(self) -> bool:
        """Writes the files, and says which bars are met; whether all are."""
        os.makedirs(self._folder, exist_ok=True)
        with open(self._folder + "/bindings.json", "w") as f:
            cells = [c.json() for c in self._cells]
            json.dump({"scenario": "bindings", "machine": self._machine, "cells": cells}, f, indent=1)
        with open(self._folder + "/bindings.md", "w") as f:
            f.write("| what | metric | pgwake | beside | ratio | bar |\n| --- | --- | --- | --- | --- | --- |\n")
            f.writelines(c.row() + "\n" for c in self._cells)
        bars = [c for c in self._cells if c.wanted]
        for c in bars:
            if not c.met:
                print(f"  NOT MET  bindings {c.variant}, {c.metric}: {shown(c.counts)} (wanted {c.wanted})")
        print(f"{sum(bool(c.met) for c in bars)} of {len(bars)} bars met")
        return all(c.met for c in bars)
