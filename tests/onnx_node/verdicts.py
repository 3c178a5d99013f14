# SPDX-License-Identifier: Apache-2.0
"""What gradients.py found, of each case: written by it, and read for the page of operators."""
import collections, dataclasses

from cases import general


@dataclasses.dataclass
class Row:
    name: str
    operator: str
    forward: str  # why the compiled forward pass is wrong or refused; "" where it is right
    verdict: str  # of the gradient: pass, constant, skip, fail; none where nothing that comes out is of floats
    why: str
    by: str  # what took the differences: evaluator or interpreter, and how far the point was moved


class Gradients:
    def __init__(self, rows):
        self.rows = sorted(rows, key=lambda r: r.name)
        self.of = collections.defaultdict(list)
        for r in self.rows:
            if "(expanded)" not in r.operator and r.verdict != "none":
                self.of[r.operator].append(r)
        # An operator is differentiable where some case has a slope that is not zero, or a gradient that is refused or wrong.
        self.differentiable = {op for op, rows in self.of.items() if {"pass", "fail"} & {r.verdict for r in rows}}
        self.right = {op for op in self.differentiable if not any(r.verdict == "fail" for r in self.of[op])}
        self.constant = {op for op, rows in self.of.items() if {r.verdict for r in rows} <= {"constant", "skip"}}

    @staticmethod
    def read(path):
        return Gradients([Row(*line.rstrip("\n").split("\t")) for line in open(path)])

    def write(self, path):
        with open(path, "w") as out:
            out.writelines("\t".join(dataclasses.astuple(r)) + "\n" for r in self.rows)

    def count(self, verdict):
        return sum(r.verdict == verdict for r in self.rows)

    def wrong(self):
        return sum(bool(r.forward) for r in self.rows) + self.count("fail")

    def by(self, what):
        return sum(r.by.startswith(what) for r in self.rows)

    def by_interpreter(self):
        return {op for op, rows in self.of.items() if any(r.by.startswith("interpreter") for r in rows)}

    def reasons(self):
        """(operator, what, why): names of cases."""
        groups = collections.defaultdict(list)
        for r in self.rows:
            if r.forward:
                groups[(r.operator, "outputs", general(r.forward))].append(r.name)
            elif r.verdict in ("fail", "skip"):
                groups[(r.operator, "gradient" if r.verdict == "fail" else "skipped", general(r.why))].append(r.name)
        return groups

    def summary(self):
        with_gradient = len(self.rows) - self.count("none")
        return (f"Of {len(self.rows)} cases with inputs of floats the outputs of the compiled forward pass are right in "
                f"{sum(not r.forward for r in self.rows)}. Of the {with_gradient} that give floats the gradient is right in "
                f"{self.count('pass')}, and 0 in {self.count('constant')} where the function is constant between jumps; "
                f"{self.count('skip')} are skipped; {self.count('fail')} are wrong or refused.")

    def operators(self):
        return f"{len(self.right)} of {len(self.differentiable)} differentiable operators"

    def text(self):
        lines = []
        for (op, what, why), names in sorted(self.reasons().items(), key=lambda g: (-len(g[1]), g[0])):
            lines += [f"{len(names):4} {op}: {what}: {why}", "     " + " ".join(names)]
        return "\n".join(lines + [self.summary(), f"The gradient is right in all cases of {self.operators()}."])

    def section(self):
        """The page's lines."""
        names = lambda which: ", ".join(sorted(which)) or "none"
        some = self.differentiable - self.right
        lines = ["", "## Gradients in compiled programs", "",
                 f"By `tests/onnx_node/gradients.py`: each of these cases that has inputs of floats, compiled as `thunderc emit` writes "
                 f"it, forward and with gradients. {self.summary()} Gradients are held against differences in fp64, of ONNX's reference "
                 f"evaluator in double ({self.by('evaluator')} cases), or of `thunderc run` where that does not compute in double "
                 f"({self.by('interpreter')}), which reads the graph as compiled programs do; points at kinks and jumps are moved. The "
                 f"latter in some case: {names(self.by_interpreter())}.", "",
                 f"The gradient is right in all cases of {self.operators()}:", "", names(self.right) + ".", "",
                 "Differentiable, and wrong or refused in some case:", "", names(some) + ".", "",
                 "Constant between jumps, or of constants of a program alone, in all cases:", "", names(self.constant) + ".", "",
                 "What fails or is skipped:", "", "| operator | cases | what | because |", "|---|---:|---|---|"]
        for (op, what, why), found in sorted(self.reasons().items()):
            lines.append(f"| {op} | {len(found)} | {what} | {why.replace('|', '/')} |")
        return lines
