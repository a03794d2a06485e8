#!/usr/bin/env python3
"""Losses of 20 training steps of a tiny qwen35moe with MTP, by PyTorch's automatic differentiation in double, token by token: an
independent reference for tests/grad/test_reference.c, which holds the numbers printed here. Needs python3-torch."""
import math
import torch

torch.set_default_dtype(torch.float64)
V, D, L, T, ROWS, STEPS = 23, 16, 2, 21, 2, 20
HQ, HKV, HD, ROT, BASE = 2, 1, 8, 4, 100.0
HK, HV, DS, K = 1, 3, 4, 4
E, USED, FF, FFS = 4, 2, 6, 10
EPS, BALANCE, MTP = 1e-6, 0.02, 0.3
RATE, B1, B2, AEPS, DECAY, CLIP = 1e-3, 0.9, 0.98, 1e-4, 0.1, 1.0  # eps: no update rests on rounding
BORDER = 9  # second document of row 1

params, decays = {}, {}


def value(i, n):
    return math.sin(12.9898 * i + 78.233 * n) * 0.5


def add(name, shape, kind="matrix"):
    n, size = len(params), math.prod(shape)
    x = [value(i, n) for i in range(size)]
    if kind == "ones":
        x = [1 + 0.2 * v for v in x]
    x = torch.tensor(x).float().double().reshape(shape)  # what a float holds
    params[name] = x.requires_grad_()
    decays[name] = kind == "matrix"


def add_layer(i, attention):
    p = f"blk.{i}."
    add(p + "attn_norm.weight", [D], "ones")
    if attention:
        add(p + "attn_q.weight", [2 * HQ * HD, D])
        add(p + "attn_k.weight", [HKV * HD, D])
        add(p + "attn_v.weight", [HKV * HD, D])
        add(p + "attn_q_norm.weight", [HD], "ones")
        add(p + "attn_k_norm.weight", [HD], "ones")
        add(p + "attn_output.weight", [D, HQ * HD])
    else:
        c = (2 * HK + HV) * DS
        add(p + "attn_qkv.weight", [c, D])
        add(p + "attn_gate.weight", [HV * DS, D])
        add(p + "ssm_beta.weight", [HV, D])
        add(p + "ssm_alpha.weight", [HV, D])
        add(p + "ssm_conv1d.weight", [c, K], "plain")
        add(p + "ssm_dt.bias", [HV], "plain")
        add(p + "ssm_a", [HV], "plain")  # logarithm of -A
        add(p + "ssm_norm.weight", [DS], "ones")
        add(p + "ssm_out.weight", [D, HV * DS])
    add(p + "post_attention_norm.weight", [D], "ones")
    add(p + "ffn_gate_inp.weight", [E, D])
    add(p + "ffn_gate_inp_shexp.weight", [1, D])
    add(p + "ffn_gate_shexp.weight", [FFS, D])
    add(p + "ffn_up_shexp.weight", [FFS, D])
    add(p + "ffn_gate_exps.weight", [E, FF, D])
    add(p + "ffn_up_exps.weight", [E, FF, D])
    add(p + "ffn_down_exps.weight", [E, D, FF])
    add(p + "ffn_down_shexp.weight", [D, FFS])


add("token_embd.weight", [V, D])
add("output_norm.weight", [D], "ones")
for layer in range(L):
    add_layer(layer, layer % 2 == 1)
add_layer(L, True)
add(f"blk.{L}.nextn.eh_proj.weight", [D, 2 * D])
for n in ("enorm", "hnorm", "shared_head_norm"):
    add(f"blk.{L}.nextn.{n}.weight", [D], "ones")


def rms(x, w):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def silu(x):
    return x * torch.sigmoid(x)


def rotate(x, pos):
    half = ROT // 2
    angle = pos * BASE ** (-2.0 * torch.arange(half) / ROT)
    a, b = x[..., :half], x[..., half:ROT]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), x[..., ROT:]], -1)


def attention(p, h):
    n, out = h.shape[0], []
    qg = (h @ params[p + "attn_q.weight"].T).reshape(n, HQ, 2 * HD)
    q, gate = qg[..., :HD], qg[..., HD:]
    k = (h @ params[p + "attn_k.weight"].T).reshape(n, HKV, HD)
    v = (h @ params[p + "attn_v.weight"].T).reshape(n, HKV, HD)
    q, k = rms(q, params[p + "attn_q_norm.weight"]), rms(k, params[p + "attn_k_norm.weight"])
    q = torch.stack([rotate(q[t], t) for t in range(n)])
    k = torch.stack([rotate(k[t], t) for t in range(n)])
    for t in range(n):
        heads = []
        for i in range(HQ):
            j = i * HKV // HQ
            s = torch.softmax(k[: t + 1, j] @ q[t, i] / math.sqrt(HD), 0)
            heads.append((s @ v[: t + 1, j]) * torch.sigmoid(gate[t, i]))
        out.append(torch.cat(heads))
    return torch.stack(out) @ params[p + "attn_output.weight"].T


def delta(p, h):
    n, kd = h.shape[0], HK * DS
    u = h @ params[p + "attn_qkv.weight"].T
    z = h @ params[p + "attn_gate.weight"].T
    beta = torch.sigmoid(h @ params[p + "ssm_beta.weight"].T)
    g = -torch.exp(params[p + "ssm_a"]) * torch.nn.functional.softplus(h @ params[p + "ssm_alpha.weight"].T + params[p + "ssm_dt.bias"])
    w = params[p + "ssm_conv1d.weight"]
    state, out = [torch.zeros(DS, DS) for _ in range(HV)], []
    for t in range(n):
        c = silu(sum(w[:, j] * u[t - K + 1 + j] for j in range(K) if t - K + 1 + j >= 0))
        heads = []
        for i in range(HV):
            kh = i % HK
            q, k, v = c[kh * DS : (kh + 1) * DS], c[kd + kh * DS : kd + (kh + 1) * DS], c[2 * kd + i * DS : 2 * kd + (i + 1) * DS]
            q = q / torch.sqrt((q * q).sum() + 1e-6) / math.sqrt(DS)
            k = k / torch.sqrt((k * k).sum() + 1e-6)
            s = torch.exp(g[t, i]) * state[i]
            s = s + torch.outer(k, beta[t, i] * (v - s.T @ k))
            state[i] = s
            heads.append(rms(s.T @ q, params[p + "ssm_norm.weight"]) * silu(z[t, i * DS : (i + 1) * DS]))
        out.append(torch.cat(heads))
    return torch.stack(out) @ params[p + "ssm_out.weight"].T


def experts(p, h, probs):
    pr = torch.softmax(h @ params[p + "ffn_gate_inp.weight"].T, -1)
    out = []
    for t in range(h.shape[0]):
        top = sorted(range(E), key=lambda e: -pr[t, e].item())[:USED]
        total, y = sum(pr[t, e] for e in top), 0
        for e in top:
            hid = silu(params[p + "ffn_gate_exps.weight"][e] @ h[t]) * (params[p + "ffn_up_exps.weight"][e] @ h[t])
            y = y + pr[t, e] / total * (params[p + "ffn_down_exps.weight"][e] @ hid)
        probs.append((p, top, pr[t]))
        out.append(y)
    s = silu(h @ params[p + "ffn_gate_shexp.weight"].T) * (h @ params[p + "ffn_up_shexp.weight"].T)
    return torch.stack(out) + torch.sigmoid(h @ params[p + "ffn_gate_inp_shexp.weight"].T) * (s @ params[p + "ffn_down_shexp.weight"].T)


def run_layer(i, mix, x, probs):
    p = f"blk.{i}."
    x = x + mix(p, rms(x, params[p + "attn_norm.weight"]))
    return x + experts(p, rms(x, params[p + "post_attention_norm.weight"]), probs)


def losses(h, target):
    return -torch.log_softmax(h @ params["token_embd.weight"].T, -1).gather(1, target[:, None])[:, 0]


def document(token, target, weight, probs):
    """Weighted losses of one document: of the trunk, of MTP."""
    x = params["token_embd.weight"][token]
    for i in range(L):
        x = run_layer(i, attention if i % 2 == 1 else delta, x, probs)
    h = rms(x, params["output_norm.weight"])
    before = torch.cat([torch.zeros(1, D), h[:-1]])
    p = f"blk.{L}.nextn."
    both = torch.cat([rms(params["token_embd.weight"][token], params[p + "enorm.weight"]), rms(before, params[p + "hnorm.weight"])], -1)
    x = run_layer(L, attention, both @ params[p + "eh_proj.weight"].T, probs)
    m = rms(x, params[p + "shared_head_norm.weight"])
    return (losses(h, target) * weight).sum(), (losses(m, target) * weight)[1:].sum()


def token_at(step, row, t):
    return (step * 5 + row * 3 + t * (t + 2 + row)) % V


def weight_at(row, t):
    if t % 4 == 3 or (row == 1 and t == BORDER - 1):  # the latter's target lies in the next document
        return 0.0
    return 1.0 if t % 3 else 0.5


moment = {n: torch.zeros_like(x) for n, x in params.items()}
square = {n: torch.zeros_like(x) for n, x in params.items()}
for step in range(STEPS):
    total = sum(weight_at(r, t) for r in range(ROWS) for t in range(T))
    main = objective = 0
    for r in range(ROWS):
        token = torch.tensor([token_at(step, r, t) for t in range(T + 1)])
        weight = torch.tensor([weight_at(r, t) for t in range(T)])
        probs = []
        for a, b in [(0, BORDER), (BORDER, T)] if r == 1 else [(0, T)]:
            one, two = document(token[a:b], token[a + 1 : b + 1], weight[a:b], probs)
            main = main + one / total
            objective = objective + one / total + MTP * two / total
        for i in range(L + 1):
            mine = [(top, pr) for p, top, pr in probs if p == f"blk.{i}."]
            for e in range(E):
                share = sum(e in top for top, _ in mine) / (USED * T)
                objective = objective + BALANCE / ROWS * E * share * sum(pr[e] for _, pr in mine) / T
    for x in params.values():
        x.grad = None
    objective.backward()
    print(f"{main.item():.9f},", end="\n" if step % 8 == 7 else " ")
    with torch.no_grad():
        norm = math.sqrt(sum((x.grad * x.grad).sum().item() for x in params.values()))
        clip = CLIP / norm if norm > CLIP else 1.0
        for n, x in params.items():
            g = x.grad * clip
            moment[n] = B1 * moment[n] + (1 - B1) * g
            square[n] = B2 * square[n] + (1 - B2) * g * g
            if decays[n]:
                x -= RATE * DECAY * x
            x -= RATE * (moment[n] / (1 - B1 ** (step + 1))) / (torch.sqrt(square[n] / (1 - B2 ** (step + 1))) + AEPS)
print()
