# Prints, as C++ initializers, what torch's optimizers and clipping do to two small parameters in three steps.
import torch
torch.set_default_dtype(torch.float64)
def gradient(step, shape, salt):
    n = 1
    for d in shape: n *= d
    return torch.tensor([((7 * k + 3 * step + salt) % 11 - 5) / 4 for k in range(n)]).reshape(shape)
def run(name, make, clip):
    w = torch.nn.Parameter(torch.tensor([[0.5, -1.0, 0.25], [2.0, 0.0, -0.75]]))
    b = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    o = make([w, b])
    norms = []
    for step in range(3):
        w.grad, b.grad = gradient(step, (2, 3), 1), gradient(step, (2,), 5)
        norms.append(torch.nn.utils.clip_grad_norm_([w, b], clip if clip else 1e30).item())
        o.step()
    flat = lambda t: "{" + ", ".join(repr(x) for x in t.detach().flatten().tolist()) + "}"
    print(f'    {{"{name}", {flat(w)}, {flat(b)}, {{{", ".join(repr(x) for x in norms)}}}}},')
adamw = lambda decay_b: lambda p: torch.optim.AdamW([{"params": p[:1], "weight_decay": 0.1}, {"params": p[1:], "weight_decay": 0.1 if decay_b else 0.0}], lr=0.02, betas=(0.9, 0.95), eps=1e-3)
sgd = lambda m: lambda p: torch.optim.SGD(p, lr=0.05, momentum=m, weight_decay=0.1)
run("adamw matrices", adamw(False), 0)
run("adamw all, clipped", adamw(True), 1.5)
run("sgd momentum", sgd(0.9), 0)
run("sgd plain, clipped", sgd(0.0), 1.5)
