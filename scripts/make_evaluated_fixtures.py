#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes the fixtures of what the exporter's optimizer evaluated, and of stops of the gradient that it dropped with their surroundings.

  python scripts/make_evaluated_fixtures.py [--out tests/fixtures]

evaluated: models in eval() mode, each exported by torch's defaults; some with a layer and a copy of it, of which it makes one. Of the metadata the files keep what make_stop_fixtures.py keeps.
rows_*: losses over rows of a batch, dynamic in the batch. One more, exported by TorchScript's exporter (torchscript.onnx), and the same as exporters named nodes and values before (torchscript_old.onnx).
"""
import copy, os

import onnx
import torch
from torch.nn import functional as F

import make_fixtures
from fixture_files import arguments
from make_fixtures import randomized
from make_stop_fixtures import export


class Small(torch.nn.Module):
    def __init__(self, loss, parameter=None, buffer=None, module=None):
        super().__init__()
        self.a, self.loss, self.module = torch.nn.Linear(4, 4), loss, module
        if parameter is not None:
            self.g = torch.nn.Parameter(parameter)
        if buffer is not None:
            self.register_buffer("buf", buffer)

    def forward(self, x, y):
        return self.loss(self, x, y)


def hidden(stop):
    """tanh(a(x)) * stop(tanh(a(x)))"""

    def loss(m, x, y):
        h = torch.tanh(m.a(x))
        stopped = stop(m, h)
        return F.mse_loss(h * stopped, y)

    return lambda module=None: Small(loss, module=module)


def gram(m, x, y):
    return F.mse_loss(m.a(x), y) + 0.1 * ((m.a.weight @ m.a.weight.T - torch.eye(4)) ** 2).mean()


def merged(m, x, y):
    h = torch.tanh(m.a(x))
    return F.mse_loss(torch.bmm(h.detach()[None], h[None].transpose(1, 2))[0] @ h, y)


def attention(m, h):
    q = h[None, None]
    k = h.detach()[None, None]
    return F.scaled_dot_product_attention(q, k, k)[0, 0]


def hooked(hook=None):
    """Layers that run one behind the other: what a hook does between two of them."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    if hook is not None:
        layers[2].register_forward_hook(hook)
    return layers


class OnOneLine(torch.nn.Module):
    """Calls that the optimizer drops, between calls of the same line of a forward()."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)

    def forward(self, x, y):
        h = self.a(x)
        h = torch.tanh(h.view(6, 2, 2).transpose(0, 1).contiguous().view(2, 3, 4).transpose(0, 1).contiguous().view(6, 4))
        return F.mse_loss(h, y)


class Attention(torch.nn.Module):
    """Attention as it is written by hand. Of these models the lines of code tell whether a detach() can hide."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(4, 4) for _ in range(4))


class OnLines(Attention):
    def forward(self, x, y):
        q = self.query(x).view(2, 3, 2, 2).transpose(1, 2)
        k = self.key(x).view(2, 3, 2, 2).transpose(1, 2)
        v = self.value(x).view(2, 3, 2, 2).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) / 2**0.5
        scores = torch.softmax(scores, dim=-1)  # (B, NH, T, T)
        h = (scores @ v).transpose(1, 2).contiguous().view(6, 4)
        return F.mse_loss(self.out(h), y)


class LineBetween(Attention):
    def forward(self, x, y):
        q = self.query(x).view(2, 3, 2, 2).transpose(1, 2)
        k = self.key(x).view(2, 3, 2, 2).transpose(1, 2)
        k = k.detach().clone()
        scores = (q @ k.transpose(-2, -1)) / 2**0.5
        return F.mse_loss(self.out((scores @ q).transpose(1, 2).contiguous().view(6, 4)), y)


class CommentBetween(Attention):
    def forward(self, x, y):
        q = self.query(x).view(2, 3, 2, 2).transpose(1, 2)
        k = self.key(x).view(2, 3, 2, 2).transpose(1, 2)
        # scores of each pair
        scores = (q @ k.transpose(-2, -1)) / 2**0.5
        return F.mse_loss(self.out((scores @ q).transpose(1, 2).contiguous().view(6, 4)), y)


class OverLines(Attention):
    def forward(self, x, y):
        k = self.key(x)
        h = (k * k
             ).detach().clone() + k
        return F.mse_loss(h.view(6, 4), y)


class InALoop(Attention):
    def forward(self, x, y):
        h = self.key(x)
        for factor in (x, x + 1):
            h = h.detach()
            h = h.clone() * factor
        return F.mse_loss(h.view(6, 4) + self.out(y), y)


class InALoopBehind(Attention):
    def forward(self, x, y):
        k = self.key(x)
        for factor in (x, x + 1):
            h = self.query(factor) * k.clone()
            k = h.tanh().detach()
        return F.mse_loss(k.view(6, 4) + self.out(y), y)


class DropoutOnALine(Attention):
    def forward(self, x, y):
        h = F.dropout(self.key(x).tanh(), 0.1, self.training).view(6, 4)
        return F.mse_loss(h, y)


class Calls(Attention):
    """A method, or a module of the author's, that leaves no trace."""

    def __init__(self, stop):
        super().__init__()
        self.stop = stop

    def forward(self, x, y):
        k = self.key(x).tanh()
        h = self.stop(k).clone() * k
        return F.mse_loss(h.view(6, 4), y)


class Stop(torch.nn.Module):
    def forward(self, x):
        return x.detach()


class Functions(Calls):
    """Modules called as torch's functions are."""

    def __init__(self):
        super().__init__(None)
        self.tanh = Stop()

    def forward(self, x, y):
        k = self.key(x).sigmoid()
        h = self.tanh(k).clone() * k
        return F.mse_loss(h.view(6, 4), y)


class Twice(Attention):
    """The same line of a function, with a line between its calls."""

    def scaled(self, h, factor):
        return h.clone() * factor

    def forward(self, x, y):
        h = self.scaled(self.key(x), x)
        h = h.detach()
        h = self.scaled(h, x + 1)
        return F.mse_loss(h.view(6, 4) + self.out(y), y)


class Property(Attention):
    """A property, of which the line that reads it does not tell."""

    @property
    def stopped(self):
        return self.kept.detach()

    def forward(self, x, y):
        self.kept = self.key(x).tanh()
        h = x * self.stopped.clone()
        return F.mse_loss(h.view(6, 4) + self.out(y), y)


class InBrackets(Attention):
    def forward(self, x, y):
        k = self.key(x)
        h = (
            k.sigmoid() * k.tanh()
            .detach().clone()
        )
        return F.mse_loss(h.view(6, 4), y)


def by_lines():
    return {
        "on_lines": OnLines(),
        "line_between": LineBetween(),
        "comment_between": CommentBetween(),
        "over_lines": OverLines(),
        "in_brackets": InBrackets(),
        "in_a_loop": InALoop(),
        "in_a_loop_behind": InALoopBehind(),
        "dropout_on_a_line": DropoutOnALine(),
        "calls": Calls(Stop()),
        "functions": Functions(),
        "twice": Twice(),
        "property": Property(),
    }


def models():
    numbers = lambda *shape: torch.randn(*shape, generator=torch.Generator().manual_seed(5))
    return {
        # made of parameters alone
        "penalty": Small(lambda m, x, y: F.mse_loss(m.a(x), y) + 0.01 * sum(p.pow(2).sum() for p in m.parameters())),
        "gram": Small(gram),
        "temperature": Small(lambda m, x, y: F.mse_loss(torch.tanh(m.a(x)) * m.g * m.g.exp(), y), torch.tensor(0.5)),
        "softmax": Small(lambda m, x, y: F.mse_loss(torch.tanh(m.a(x) @ m.g) @ torch.softmax(m.g, -1), y), numbers(4, 4)),
        "half": Small(lambda m, x, y: F.mse_loss(torch.tanh(m.a(x)) @ (m.a.weight * 0.5), y)),
        "gate": Small(lambda m, x, y: F.mse_loss(torch.tanh(m.g) * m.a(x) + m.g * x, y), numbers(1), module=torch.nn.Linear(4, 4)),
        "buffer": Small(lambda m, x, y: F.mse_loss(m.a(x) * m.g + m.g.tanh() + x * (m.buf * 2), y), numbers(4), numbers(4)),
        # made of none
        "created": Small(lambda m, x, y: F.hinge_embedding_loss(m.a(x), torch.where(y > 0, 1.0, -1.0)) + F.smooth_l1_loss(m.a(x), torch.zeros(6, 4) + y * 0)),
        # detach() beside what is dropped
        "dropout": hidden(lambda m, h: m.module(h.detach()))(torch.nn.Dropout(0.1)),
        "view": hidden(lambda m, h: h.detach().contiguous().view(h.shape))(),
        "slice": hidden(lambda m, h: h.detach()[:, :])(),
        "expand": hidden(lambda m, h: h.detach().expand_as(h))(),
        "times_one": hidden(lambda m, h: h.detach() * 1.0)(),
        "plus_zero": hidden(lambda m, h: h.detach() + 0.0)(),
        "twice_turned": hidden(lambda m, h: h.detach().t().t())(),
        "unsqueeze": hidden(lambda m, h: (h[:, None] * h.detach()[:, None, :]).sum(1))(),
        "attention": hidden(attention)(),
        "merged": Small(merged),
        "epsilon": Small(lambda m, x, y: (torch.log(torch.relu(m.a(x)) + 1e-9) * y).mean()),
        "hook": Small(lambda m, x, y: F.mse_loss(m.a(m.module(x)), y), module=hooked(lambda layer, given, h: h.detach().view(h.shape))),
        # and what no detach() can hide beside
        "on_one_line": OnOneLine(),
        "sequential": Small(lambda m, x, y: F.mse_loss(m.a(m.module(x.view(x.shape))), y), module=hooked()),
        "encoder": Small(lambda m, x, y: F.mse_loss(m.module(x[None])[0], y), module=torch.nn.TransformerEncoderLayer(4, 2, 8, 0.1, batch_first=True)),
    }


class Copied(torch.nn.Module):
    """A layer, and a copy of it that begins with the same numbers: as buffers, or as parameters."""

    def __init__(self, loss, layer=None, buffers=False):
        super().__init__()
        self.trunk, self.student, self.loss = torch.nn.Linear(4, 4), layer or torch.nn.Linear(4, 4), loss
        self.teacher = copy.deepcopy(self.student)
        for name, parameter in list(self.teacher.named_parameters()) if buffers else []:
            delattr(self.teacher, name)
            self.teacher.register_buffer(name, parameter.detach().clone())

    def forward(self, x, y):
        return self.loss(self, self.trunk(x), y)


class Gate(torch.nn.Module):
    """One number."""

    def __init__(self):
        super().__init__()
        self.g = torch.nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return x * self.g


class Rotary(torch.nn.Module):
    """Waves, in a region of their own; the exporter gives all of a region around it the scope of this module."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequency", torch.tensor([1.0, 0.1, 0.01, 0.001]))

    @torch.no_grad()
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return torch.cos(x[..., :1] * self.frequency)


class Rotated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.rotary, self.q = torch.nn.RMSNorm(4), Rotary(), torch.nn.Linear(4, 4, bias=False)

    def forward(self, x):
        waves = self.rotary(x)
        return self.q(self.norm(x)) * waves


class Distilled(torch.nn.Module):
    """A teacher under no_grad(), whose norm has the numbers of the student's."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = Rotated(), Rotated()

    def forward(self, x, y):
        x, y = x[None], y[None]
        with torch.no_grad():
            t = self.teacher(torch.tanh(x))
        return F.mse_loss(self.student(x), t) + F.mse_loss(self.student(x), y)


def apart(model):
    """The copy's bias is another one."""
    model.teacher.bias += 1
    return model


def with_third(model):
    model.third = copy.deepcopy(model.student)
    return model


def copies():
    drop = lambda h: F.dropout(h, 0.1, False)
    error = lambda m, h, y: F.mse_loss(m.student(h), m.teacher(h)) + F.mse_loss(m.student(h), y)
    stopped = lambda m, h, y: F.mse_loss(m.student(h), m.teacher(h).detach()) + F.mse_loss(m.student(h), y)
    of_weights = lambda m, h, y, bias: F.mse_loss(m.student(h) - F.linear(y, m.teacher.weight.detach(), bias), y)
    return {
        # what the copy makes is the same for the exporter's optimizer
        "teacher": Copied(error, buffers=True),
        "teacher_detached": Copied(stopped, buffers=True),
        "teacher_of_parameters": Copied(stopped),
        "teacher_dropped": Copied(lambda m, h, y: F.mse_loss(drop(m.student(h)), drop(m.teacher(h))), buffers=True),
        "teacher_in_part": apart(Copied(lambda m, h, y: F.mse_loss(m.student(h[None]) * m.teacher(h[None]), y[None]), buffers=True)),
        "twins": Copied(error, torch.nn.LayerNorm(4)),
        # and where it is not
        "teacher_of_others": Copied(lambda m, h, y: F.mse_loss(m.student(h), m.teacher(y)), buffers=True),
        "gate_of_others": Copied(lambda m, h, y: F.mse_loss(m.student(h), m.teacher(y)), Gate(), buffers=True),
        "teacher_unused": Copied(lambda m, h, y: F.mse_loss(drop(m.student(h)) * h, y), buffers=True),
        # the copy's parameters themselves, one by one
        "stopped_weights": Copied(lambda m, h, y: of_weights(m, h, y, m.teacher.bias.detach())),
        "stopped_weight": with_third(Copied(lambda m, h, y: of_weights(m, m.third(h), y, m.teacher.bias))),
        "region": Distilled(),
        # a number of the code that a parameter begins equal to
        "literal": Small(lambda m, x, y: F.mse_loss(m.g * m.a(x) + m.g.detach() * torch.sin(x) + 0.5 * torch.tanh(m.a(y)), y), torch.tensor(0.5)),
    }


def tails():
    """Losses whose last term is gone, as the exporter's optimizer sees that it is zero. The graphs' outputs have the traced names."""
    penalty = lambda w: 0.1 * w.abs().sum()
    return {
        "tail_of_zeros": Small(lambda m, x, y: F.mse_loss(m.a(x) + x @ m.g, y) + penalty(m.g), torch.zeros(4, 4)),
        "tail_of_copies": Copied(lambda m, h, y: F.mse_loss(m.student(h), y) + penalty(m.student.weight - m.teacher.weight)),
        "tail_is_there": Small(lambda m, x, y: F.mse_loss(m.a(x), y) + 0.1 * m.a(y).abs().sum()),
        # a parameter of zeros that is read transposed alone, and one that is read in both orders
        "turned_zeros": Small(lambda m, x, y: F.mse_loss(m.a(x) + x @ m.g.t(), y), torch.zeros(4, 4)),
        "turned_twice": Small(lambda m, x, y: F.mse_loss(m.a(x) + (x @ m.g).tanh() @ m.g.t(), y), torch.zeros(4, 3)),
    }


def torchscript(path, old, x, y):
    """Numbers at the model's root: a parameter, twice a parameter, which is folded, and numbers of the code."""
    loss = lambda m, x, y: F.mse_loss(m.g * m.a(x) * 0.3 + torch.tanh(x * (2 * m.g)), y)
    make_fixtures.export(randomized(Small(loss, torch.tensor(2.5))), (x, y), ["x", "y"], "loss", path, legacy=True)
    make_fixtures.export(randomized(Small(loss, torch.tensor(2.5))), (x, y), ["x", "y"], "loss", old, legacy=True)
    model = onnx.load(old)
    numbers = {}
    for k, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{k}"
        for name in node.output[:]:
            if name != "loss":
                numbers[name] = str(10 + len(numbers))
    for tensor in model.graph.initializer:
        if tensor.name.startswith("onnx::"):
            tensor.name = numbers.setdefault(tensor.name, str(10 + len(numbers)))
    for node in model.graph.node:
        node.input[:] = [numbers.get(v, v) for v in node.input]
        node.output[:] = [numbers.get(v, v) for v in node.output]
    onnx.save(model, old)


def rows():
    """Losses over a batch, of which some take one row."""
    return {
        "rows_all": lambda m, x, y: F.mse_loss(m.a(x), y),
        "rows_all_counted": lambda m, x, y: F.mse_loss(m.a(x)[: y.size(0)], y),
        "rows_first": lambda m, x, y: F.mse_loss(m.a(x)[0], y[0]),
        "rows_last": lambda m, x, y: F.mse_loss(m.a(x)[-1], y[-1]),
        "rows_up_to_one": lambda m, x, y: F.mse_loss(m.a(x)[:1], y[:1]),
        "rows_from_last": lambda m, x, y: F.mse_loss(m.a(x)[-1:], y[-1:]),
        "rows_picked": lambda m, x, y: F.mse_loss(m.a(x)[torch.tensor([0])], y[torch.tensor([0])]),
        "rows_position": lambda m, x, y: F.mse_loss(m.a(x.view(-1, 1, 4))[:, 0], y),
    }


def main():
    folder = f"{arguments(__doc__, torch).out}/evaluated"
    os.makedirs(folder, exist_ok=True)
    g = torch.Generator().manual_seed(3)
    x, y = torch.randn(6, 4, generator=g), torch.randn(6, 4, generator=g)
    for name, model in models().items():
        export(randomized(model).eval(), (x, y), ["x", "y"], f"{folder}/{name}.onnx", True)
    sequences = torch.randn(2, 3, 4, generator=g)
    for name, model in by_lines().items():
        export(randomized(model).eval(), (sequences, y), ["x", "y"], f"{folder}/{name}.onnx", True, whole_traces=True)
    torch.manual_seed(7)
    for name, model in copies().items():
        export(model.eval(), (x, y), ["x", "y"], f"{folder}/{name}.onnx", True)
    torch.manual_seed(7)
    for name, model in tails().items():
        export(model.eval(), (x, y), ["x", "y"], f"{folder}/{name}.onnx", True, ())
    batch = {0: torch.export.Dim("batch")}
    for name, loss in rows().items():
        make_fixtures.export(randomized(Small(loss)), (x, y), ["x", "y"], "loss", f"{folder}/{name}.onnx", optimize=False, dynamic=(batch, batch))
    torchscript(f"{folder}/torchscript.onnx", f"{folder}/torchscript_old.onnx", x, y)


if __name__ == "__main__":
    main()
