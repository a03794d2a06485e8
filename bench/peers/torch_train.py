#!/usr/bin/python3
"""Training speed against PyTorch (Debian's python3-torch; CPU, eager) on the same model, weights and batch, in turns in one run.

  bench/peers/torch_train.py [--shape mini|first] [--threads 2] [--steps 4] [--rounds 2] [--work DIR] [--chunk 32] [--rows 0] [--setup] [--report]

PyTorch gets what makes it faster here: an OpenBLAS that shares its threads (libopenblas0-openmp, where installed), kernels for AVX-512 where
the processor has it (OpenBLAS 0.3.21 does not know newer ones by itself), memory that is not given back to the system after each operation.

First both compute one step from the same weights: loss, and gradient out of chimere's checkpoint, must agree. Then they take turns, each
in a process of its own. What is slower by being the first in a process (step 1) is left out on both sides. Rounds are added to
DIR/rounds.json, so that a run can be had in pieces: --setup does all but the rounds, --rounds 0 --report prints what is there.
chimere takes part twice, with products in f32 and, as "half", in bf16 (train.half). Shapes: mini (configs/mini.json, with MTP) and first (8 layers of 256, vocabulary 2048, 10 rows of 384)."""
import argparse, glob, json, math, os, random, resource, struct, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("CHIMERE_BIN", os.path.join(ROOT, "chimere"))
FIRST = {"arch": "qwen35moe", "n_layer": 8, "n_embd": 256, "n_ctx": 2048, "tied": True, "eps": 1e-6, "n_head": 4, "n_head_kv": 2,
         "d_head": 64, "n_rot": 16, "rope_base": 100000, "attn_interval": 4, "ssm_heads_k": 2, "ssm_heads_v": 6, "ssm_d_state": 32,
         "ssm_conv": 4, "n_expert": 8, "n_expert_used": 2, "n_ff_exp": 32, "n_ff_shexp": 96, "n_mtp": 0}
RATE, BETAS, EPS, DECAY, AVERAGE, BALANCE, MTP = 1e-3, (0.9, 0.98), 1e-8, 0.1, 0.995, 0.01, 0.3

SIDES = {"f32": False, "half": True}  # of chimere


def shape(name):
    """Model, rows, tokens of a row, vocabulary."""
    if name == "first":
        return dict(FIRST), 10, 384, 2048
    with open(os.path.join(ROOT, "configs/mini.json")) as f:
        c = json.load(f)
    return c["model"], c["data"]["n_row"], c["data"]["n_ctx"], 3072


# ---- files that both read ----------------------------------------------------------------------------------------------------------
def read_gguf(path):
    """Keys with texts and numbers, and F32 tensors as (name, shape slowest first, offset), of a file."""
    with open(path, "rb") as f:
        b = f.read()
    at = 24
    n_tensor, n_key = struct.unpack_from("<QQ", b, 8)
    kinds = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def text():
        nonlocal at
        n, = struct.unpack_from("<Q", b, at)
        at += 8 + n
        return b[at - n:at].decode("utf-8", "replace")

    def value(kind):
        nonlocal at
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = struct.unpack_from("<IQ", b, at)
            at += 12
            return [value(inner) for _ in range(n)]
        x, = struct.unpack_from("<" + kinds[kind], b, at)
        at += struct.calcsize("<" + kinds[kind])
        return x

    keys, tensors = {}, []
    for _ in range(n_key):
        name = text()
        kind, = struct.unpack_from("<I", b, at)
        at += 4
        keys[name] = value(kind)
    for _ in range(n_tensor):
        name = text()
        n, = struct.unpack_from("<I", b, at)
        ne = struct.unpack_from(f"<{n}Q", b, at + 4)
        at += 4 + 8 * n
        kind, off = struct.unpack_from("<IQ", b, at)
        at += 12
        tensors.append((name, tuple(reversed(ne))))
    return keys, tensors


def chimere(*args):
    subprocess.run([BINARY, *args, "-q"], check=True, stdout=subprocess.DEVNULL)


def set_up(work, name, threads):
    """Vocabulary, documents that fill a row each, and chimere's first step: its checkpoint has the weights and, with a rate of 0 and no
    clipping, a tenth of the gradient as moments."""
    model, n_row, n_ctx, n_vocab = shape(name)
    at = lambda f: os.path.join(work, f)
    docs = [os.path.join(ROOT, "docs", f) for f in sorted(os.listdir(os.path.join(ROOT, "docs"))) if f.endswith(".md")]
    chimere("tokenizer-train", "-o", at("vocab.gguf"), "--vocab", str(n_vocab), *docs)
    keys, _ = read_gguf(at("vocab.gguf"))
    tokens = keys["tokenizer.ggml.tokens"]
    words = [(i, t[1:]) for i, t in enumerate(tokens) if t.startswith("\u0120") and t[1:].isascii() and t[1:].isalpha()]
    draw, end = random.Random(1), tokens.index("<|endoftext|>")
    rows = []
    with open(at("data.jsonl"), "w") as f:
        for _ in range(n_row):
            doc = draw.choices(words, k=n_ctx)
            f.write(json.dumps({"text": "".join(" " + w for _, w in doc)}) + "\n")
            rows.append([i for i, _ in doc] + [end])
    train = {"rate": RATE, "warmup": 0, "schedule": "constant", "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS, "weight_decay": DECAY,
             "clip": 1, "average": AVERAGE, "balance": BALANCE, "mtp_weight": MTP}
    config = {"model": model, "data": {"tokenizer": at("vocab.gguf"), "sources": [{"path": at("data.jsonl")}], "n_row": n_row, "n_ctx": n_ctx,
                                       "cache": at("tokens.bin")},
              "train": {**train, "steps": 1000000, "rate": 0, "clip": 0}, "run": {"out": at("one"), "threads": threads, "export": "none", "save_every": 0}}
    with open(at("one.json"), "w") as f:
        json.dump(config, f)
    for side, half in SIDES.items():
        config["train"], config["run"]["out"] = {**train, "steps": 1000000, "half": half}, at(side)
        with open(at(side + ".json"), "w") as f:
            json.dump(config, f)
    chimere("train", at("one.json"), "--restart", "--steps", "1")
    chimere("train", at("one.json"), "--export", at("one.gguf"), "--type", "f32")
    with open(at("rows.json"), "w") as f:
        json.dump(rows, f)


def read_checkpoint(work):
    """Weights and gradient by name, in the order of the exported file; each tensor begins at a multiple of 16 values."""
    import torch
    _, tensors = read_gguf(os.path.join(work, "one.gguf"))
    with open(os.path.join(work, "one/checkpoint"), "rb") as f:
        b = f.read()
    n, = struct.unpack_from("<Q", b, 64)
    w, g = (torch.frombuffer(bytearray(b[80 + i * 4 * n:80 + (i + 1) * 4 * n]), dtype=torch.float32) for i in range(2))
    weight, grad, off = {}, {}, 0
    for name, ne in tensors:
        size = math.prod(ne)
        weight[name], grad[name] = w[off:off + size].reshape(ne).clone(), g[off:off + size].reshape(ne) * 10
        off = (off + size + 15) // 16 * 16
    assert off == n, (off, n)
    return weight, grad


# ---- the model in PyTorch ----------------------------------------------------------------------------------------------------------
# Matrices that read the same rows are one parameter: group -> tensors along the first dimension (experts: the second).
JOINED = {"delta_in": ["attn_qkv.weight", "attn_gate.weight", "ssm_beta.weight", "ssm_alpha.weight"],
          "attn_in": ["attn_q.weight", "attn_k.weight", "attn_v.weight"],
          "moe_in": ["ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "ffn_gate_shexp.weight", "ffn_up_shexp.weight"],
          "experts_in": ["ffn_gate_exps.weight", "ffn_up_exps.weight"]}


def build(model, chunk, weight):
    import torch
    import torch.nn.functional as F
    d, eps = model["n_embd"], model["eps"]
    hq, hkv, hd, n_rot = model["n_head"], model["n_head_kv"], model["d_head"], model["n_rot"]
    hk, hv, ds = model["ssm_heads_k"], model["ssm_heads_v"], model["ssm_d_state"]
    n_exp, n_used, ff, ffs = model["n_expert"], model["n_expert_used"], model["n_ff_exp"], model["n_ff_shexp"]
    kd, vd = hk * ds, hv * ds
    params, parts = {}, {}
    taken = set()
    for name in weight:
        prefix, _, last = name.rpartition("blk.")
        layer, _, rest = last.partition(".")
        for group, members in JOINED.items():
            if rest == members[0]:
                names = [f"blk.{layer}.{m}" for m in members]
                cut = [weight[x].reshape(1, -1) if weight[x].dim() == 1 else weight[x] for x in names]
                along = 1 if group == "experts_in" else 0
                parts[f"{layer}.{group}"] = (names, [c.shape[along] for c in cut], along)
                params[f"{layer}.{group}"] = torch.cat(cut, along)
                taken.update(names)
    for name, w in weight.items():
        if name not in taken:
            params[name] = w.clone()
            parts[name] = ([name], None, 0)
    params = {n: torch.nn.Parameter(w) for n, w in params.items()}

    def rms(x, w):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w

    def attention(i, h):
        B, T, _ = h.shape
        q, k, v = F.linear(h, params[f"{i}.attn_in"]).split([2 * hq * hd, hkv * hd, hkv * hd], -1)
        q, gate = q.view(B, T, hq, 2 * hd).split(hd, -1)
        q = rotate(rms(q, params[f"blk.{i}.attn_q_norm.weight"])).permute(0, 2, 1, 3).reshape(B * hkv, hq // hkv, T, hd)
        k = rotate(rms(k.view(B, T, hkv, hd), params[f"blk.{i}.attn_k_norm.weight"])).permute(0, 2, 1, 3).reshape(B * hkv, T, hd)
        v = v.view(B, T, hkv, hd).permute(0, 2, 1, 3).reshape(B * hkv, T, hd)
        out = []  # stretches of queries, so that little lies beyond the diagonal; heads of one key head are rows of one product
        for t in range(0, T, 256):
            e = min(t + 256, T)
            s = torch.bmm(q[:, :, t:e].reshape(B * hkv, -1, hd), k[:, :e].transpose(1, 2) * (1 / math.sqrt(hd))).view(B * hkv, hq // hkv, e - t, e)
            s = torch.softmax(s + beyond[e - t, t], -1)
            out.append(torch.bmm(s.view(B * hkv, -1, e), v[:, :e]).view(B * hkv, hq // hkv, e - t, hd))
        y = torch.cat(out, 2).view(B, hq, T, hd).permute(0, 2, 1, 3) * torch.sigmoid(gate)
        return F.linear(y.reshape(B, T, hq * hd), params[f"blk.{i}.attn_output.weight"])

    def rotate(x):
        a, b, rest = x[..., :n_rot // 2], x[..., n_rot // 2:n_rot], x[..., n_rot:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)

    def delta(i, h):
        B, T, _ = h.shape
        u, z, beta, alpha = F.linear(h, params[f"{i}.delta_in"]).split([2 * kd + vd, vd, hv, hv], -1)
        w = params[f"blk.{i}.ssm_conv1d.weight"]
        u = F.silu(F.conv1d(F.pad(u.transpose(1, 2), (w.shape[1] - 1, 0)), w[:, None], groups=w.shape[0])).transpose(1, 2)
        q, k, v = u.split([kd, kd, vd], -1)
        q, k = (x.view(B, T, hk, ds) for x in (q, k))
        q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * (1 / math.sqrt(ds))
        k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
        n = -(-T // chunk)
        more = n * chunk - T  # padding decays by nothing and writes nothing
        cut = lambda x, heads: F.pad(x, (0, 0, 0, 0, 0, more)).view(B, n, chunk, heads, -1).permute(0, 3, 1, 2, 4)  # [B, heads, n, chunk, .]
        q, k = (cut(x, hk).repeat(1, hv // hk, 1, 1, 1) for x in (q, k))  # value head h meets key head h mod hk
        v = cut(v.reshape(B, T, hv, ds), hv)
        beta = cut(torch.sigmoid(beta)[..., None], hv)
        g = -torch.exp(params[f"blk.{i}.ssm_a"]) * F.softplus(alpha + params[f"blk.{i}.ssm_dt.bias"])
        g = cut(g[..., None], hv).squeeze(-1).cumsum(-1)
        decay = torch.exp((g[..., :, None] - g[..., None, :]).masked_fill(upper, -math.inf))
        m = B * hv * n
        flat = lambda x: x.reshape(m, chunk, -1)
        kk = torch.bmm(flat(k * beta), flat(k).transpose(1, 2)) * flat(decay)
        e = torch.exp(g)[..., None]
        both = torch.linalg.solve_triangular(kk.tril(-1), flat(torch.cat([v * beta, k * (beta * e)], -1)), upper=False, unitriangular=True)
        n_v, n_k = (x.view(B * hv, n, chunk, ds) for x in both.split(ds, -1))
        left = (k * torch.exp(g[..., -1:] - g)[..., None]).view(B * hv, n, chunk, ds).transpose(2, 3)
        all_ = torch.exp(g[..., -1]).view(B * hv, n, 1, 1)
        state, states, values = torch.zeros(B * hv, ds, ds), [], []
        for c in range(n):
            states.append(state)
            values.append(torch.baddbmm(n_v[:, c], n_k[:, c], state, alpha=-1))
            state = torch.baddbmm(state * all_[:, c], left[:, c], values[-1])
        p = torch.bmm(flat(q), flat(k).transpose(1, 2)) * flat(decay)
        o = torch.baddbmm(torch.bmm(p, torch.stack(values, 1).view(m, chunk, ds)), flat(q * e), torch.stack(states, 1).view(m, ds, ds))
        o = o.view(B, hv, n * chunk, ds).permute(0, 2, 1, 3)[:, :T]
        y = rms(o, params[f"blk.{i}.ssm_norm.weight"]) * F.silu(z.view(B, T, hv, ds))
        return F.linear(y.reshape(B, T, vd), params[f"blk.{i}.ssm_out.weight"])

    def experts(i, h, balance):
        B, T, _ = h.shape
        x = h.reshape(B * T, d)
        score, share, gate, up = F.linear(x, params[f"{i}.moe_in"]).split([n_exp, 1, ffs, ffs], -1)
        prob = torch.softmax(score, -1)
        top, which = prob.topk(n_used, -1)
        top = top / top.sum(-1, keepdim=True)
        used = F.one_hot(which, n_exp).view(B, T * n_used, n_exp).sum(1) / (T * n_used)
        balance.append((used * prob.view(B, T, n_exp).mean(1)).sum() * (n_exp / B))
        which = which.reshape(-1)
        order = torch.argsort(which, stable=True)  # slots by expert
        count = torch.bincount(which, minlength=n_exp).tolist()
        row = torch.div(order, n_used, rounding_mode="floor")
        slots, weights = x.index_select(0, row).split(count), top.reshape(-1, 1).index_select(0, order).split(count)
        w_in, w_out = params[f"{i}.experts_in"].unbind(0), params[f"blk.{i}.ffn_down_exps.weight"].unbind(0)
        out = []
        for s, w, a, b in zip(slots, weights, w_in, w_out):
            one, two = F.linear(s, a).split(ff, -1)
            out.append(F.linear(F.silu(one) * two * w, b))
        shared = F.linear(F.silu(gate) * up, params[f"blk.{i}.ffn_down_shexp.weight"]) * torch.sigmoid(share)
        return shared.index_add(0, row, torch.cat(out)).view(B, T, d)

    def layer(i, x, balance):
        mix = attention if f"{i}.attn_in" in params else delta
        x = x + mix(i, rms(x, params[f"blk.{i}.attn_norm.weight"]))
        return x + experts(i, rms(x, params[f"blk.{i}.post_attention_norm.weight"]), balance)

    def head(h, target, w):
        logits = F.linear(h.reshape(-1, d), params["token_embd.weight"])
        return (F.cross_entropy(logits, target.reshape(-1), reduction="none") * w.reshape(-1)).sum()

    def losses(rows, share):
        """Of some rows, share of the batch: their part of its mean loss, and of the value whose gradient is wanted."""
        token, target = rows[:, :-1], rows[:, 1:]
        weight = torch.ones(token.shape)
        weight[:, -1] = 0.3  # the end of a text
        total, balance = weight.sum() / share, []
        x = F.embedding(token, params["token_embd.weight"])
        for i in range(model["n_layer"]):
            x = layer(i, x, balance)
        h = rms(x, params["output_norm.weight"])
        main = head(h, target, weight) / total
        value = main
        if model["n_mtp"]:
            i = model["n_layer"]
            p = f"blk.{i}.nextn."
            before = F.pad(h[:, :-1], (0, 0, 1, 0))
            both = torch.cat([rms(F.embedding(token, params["token_embd.weight"]), params[p + "enorm.weight"]), rms(before, params[p + "hnorm.weight"])], -1)
            x = layer(i, F.linear(both, params[p + "eh_proj.weight"]), balance)
            weight = weight.clone()
            weight[:, 0] = 0  # nothing comes before
            value = value + MTP * head(rms(x, params[p + "shared_head_norm.weight"]), target, weight) / total
        return main, value + BALANCE * share * sum(balance)

    T = shape_ctx
    angle = torch.arange(T)[:, None] * model["rope_base"] ** (-2.0 * torch.arange(n_rot // 2, dtype=torch.float64) / n_rot)
    cos, sin = (f(angle).float()[:, None] for f in (torch.cos, torch.sin))
    beyond = {(min(t + 256, T) - t, t): torch.full((min(t + 256, T) - t, min(t + 256, T)), -math.inf).triu(t + 1) for t in range(0, T, 256)}
    upper = torch.ones(chunk, chunk, dtype=torch.bool).triu(1)
    return params, parts, losses


def optimizer(params):
    import torch
    plain = [p for n, p in params.items() if p.dim() == 1 or n.endswith("conv1d.weight")]
    matrices = [p for n, p in params.items() if not (p.dim() == 1 or n.endswith("conv1d.weight"))]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0}], lr=RATE, betas=BETAS, eps=EPS, foreach=True)


def add_gradient(losses, rows, at_a_time):
    total = 0.0
    for part in rows.split(at_a_time or len(rows)):
        main, value = losses(part, len(part) / len(rows))
        value.backward()
        total += main.item()
    return total


def step(params, losses, opt, mean, rows, at_a_time):
    import torch
    opt.zero_grad(set_to_none=True)
    main = add_gradient(losses, rows, at_a_time)
    with torch.no_grad():
        grads = [p.grad for p in params.values()]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        torch._foreach_mul_(grads, min(1.0, 1.0 / norm.item()))
    opt.step()
    with torch.no_grad():
        torch._foreach_mul_(mean, AVERAGE)
        torch._foreach_add_(mean, list(params.values()), alpha=1 - AVERAGE)
    return main


def torch_side(args):
    """One process of PyTorch: --torch check compares with the checkpoint, --torch time prints seconds of each step and the peak memory."""
    global shape_ctx
    import torch
    torch.set_num_threads(args.threads)
    model, n_row, shape_ctx, _ = shape(args.shape)
    weight, grad = read_checkpoint(args.work)
    with open(os.path.join(args.work, "rows.json")) as f:
        rows = torch.tensor(json.load(f))
    params, parts, losses = build(model, args.chunk, weight)
    if args.torch == "check":
        main = add_gradient(losses, rows, args.rows)
        with open(os.path.join(args.work, "one/log.jsonl")) as f:
            ours = json.loads(f.readline())
        size = off = 0.0
        worst = ("", 0.0)
        for name, (names, sizes, along) in parts.items():
            for n, g in zip(names, params[name].grad.split(sizes, along) if sizes else [params[name].grad]):
                a, b = grad[n].double(), g.double().reshape(grad[n].shape)
                size, off = size + a.square().sum().item(), off + (a - b).square().sum().item()
                apart = ((a - b).norm() / a.norm().clamp_min(1e-30)).item()
                worst = max(worst, (n, apart), key=lambda x: x[1])
        print(json.dumps({"loss": main, "loss_chimere": ours["loss"], "gradient": math.sqrt(size), "apart": math.sqrt(off / size),
                          "worst": worst, "parameters": sum(p.numel() for p in params.values())}))
        return
    opt, mean, seconds = optimizer(params), [p.detach().clone() for p in params.values()], []
    del weight, grad
    for _ in range(args.steps):
        t = time.perf_counter()
        loss = step(params, losses, opt, mean, rows, args.rows)
        seconds.append(time.perf_counter() - t)
    print(json.dumps({"seconds": seconds, "loss": loss, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


# ---- turns -------------------------------------------------------------------------------------------------------------------------
def torch_env(threads):
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads), "MALLOC_MMAP_MAX_": "0", "MALLOC_ARENA_MAX": "1",
           "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 28)}
    shared = glob.glob("/usr/lib/*/openblas-openmp/libopenblas.so.0")
    if shared:
        env["LD_PRELOAD"] = shared[0]
    with open("/proc/cpuinfo") as f:
        if " avx512bw " in f.read():
            env.update(OPENBLAS_CORETYPE="SKYLAKEX", ATEN_CPU_CAPABILITY="avx512")
    return env


def run_torch(args, what):
    out = subprocess.run([sys.executable, os.path.abspath(__file__), "--torch", what, "--shape", args.shape, "--threads", str(args.threads), "--steps",
                          str(args.steps), "--chunk", str(args.chunk), "--rows", str(args.rows), "--work", args.work], check=True, stdout=subprocess.PIPE, env=torch_env(args.threads)).stdout
    return json.loads(out)


def run_chimere(args, side, places):
    """Seconds of each step, out of the log's speeds (means over the steps so far), and peak memory."""
    p = subprocess.Popen([BINARY, "train", os.path.join(args.work, side + ".json"), "--restart", "--steps", str(args.steps), "-q"])
    _, status, usage = os.wait4(p.pid, 0)
    if status:
        sys.exit("chimere train failed")
    with open(os.path.join(args.work, side, "log.jsonl")) as f:
        speed = [json.loads(line)["tokens_per_s"] for line in f]
    ends = [(i + 1) * places / s for i, s in enumerate(speed)]
    return {"seconds": [b - a for a, b in zip([0] + ends, ends)], "peak_mb": usage.ru_maxrss / 1024}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", choices=["mini", "first"], default="mini")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=4, help="of a turn; the first is not counted; at most 16")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--chunk", type=int, default=32, help="tokens of a chunk in PyTorch's delta rule")
    p.add_argument("--rows", type=int, default=0, help="rows that PyTorch takes at a time, adding up gradients; 0: the batch")
    p.add_argument("--work", default="", help="folder for the files of both")
    p.add_argument("--setup", action="store_true", help="prepare and compare, no rounds")
    p.add_argument("--report", action="store_true", help="add no preparation; print the rounds so far")
    p.add_argument("--torch", choices=["check", "time"], help=argparse.SUPPRESS)
    args = p.parse_args()
    args.work = args.work or os.path.join(ROOT, "build/torch", args.shape)
    if args.torch:
        return torch_side(args)
    model, n_row, n_ctx, _ = shape(args.shape)
    rounds_file = os.path.join(args.work, "rounds.json")
    if not args.report:
        os.makedirs(args.work, exist_ok=True)
        set_up(args.work, args.shape, args.threads)
        c = run_torch(args, "check")
        print(f"{args.shape}: {c['parameters']} parameters, {n_row} rows of {n_ctx}; loss {c['loss_chimere']:.6f}, PyTorch {c['loss']:.6f}; "
              f"gradient of length {c['gradient']:.4f}, PyTorch's apart by {c['apart']:.2e} of it (at most {c['worst'][1]:.2e}: {c['worst'][0]})")
        if abs(c["loss"] - c["loss_chimere"]) > 1e-5 * c["loss"] or c["apart"] > 1e-4:
            sys.exit("not the same computation")
        with open(rounds_file, "w") as f:
            json.dump([], f)
    with open(rounds_file) as f:
        rounds = json.load(f)
    for _ in range(0 if args.setup else args.rounds):
        rounds.append({**{side: run_chimere(args, side, n_row * n_ctx) for side in SIDES}, "torch": run_torch(args, "time")})
        r = rounds[-1]
        print("round " + str(len(rounds)) + ": " + ", ".join(f"{k} {' '.join(f'{s:.2f}' for s in v['seconds'])} s" for k, v in r.items()), flush=True)
        with open(rounds_file, "w") as f:
            json.dump(rounds, f)
    speed = {k: sorted(n_row * n_ctx * (len(r[k]["seconds"]) - 1) / sum(r[k]["seconds"][1:]) for r in rounds) for k in [*SIDES, "torch"]}
    middle = {k: (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2 for k, v in speed.items() if v}
    for k in middle:
        print(f"{k:8} {middle[k]:8.0f} tokens/s ({speed[k][0]:.0f} to {speed[k][-1]:.0f} in {len(rounds)} rounds), "
              f"{max(r[k]['peak_mb'] for r in rounds):.0f} MB at most; {middle[k] / middle['torch']:.2f} times PyTorch")


if __name__ == "__main__":
    main()
