"""The streams of the hyper-connections family, against their equations, token by token."""

import pytest
import torch
from residual_reference import TOKENS, WIDTH, check, embedding, rms_norm, stream_of, sublayers
from residual_variants import build, job, perturb
from torch import Tensor


@pytest.mark.parametrize("form", ["static", "dynamic", "simplified"])
@pytest.mark.parametrize("n", [1, 4])
def test_hyper_connections(form: str, n: int) -> None:
    stream = stream_of(residual="hyper_connections", connections=form, streams=n)
    rows = [[e.clone() for _ in range(n)] for e in embedding()]  # of each token
    expected = []
    for sublayer, c in zip(sublayers(), stream.sublayers, strict=True):
        coefficients = []
        for token in rows:
            read, mixing, write = c.read.clone(), c.mixing.clone(), c.write.clone()
            if form == "simplified":
                read = torch.softmax(read, dim=0)
            if form == "dynamic":
                for i, row in enumerate(token):
                    h = (row - row.mean()) / (
                        row.var(unbiased=False) + 1e-5
                    ).sqrt() * c.norm_weight + c.norm_bias
                    read[i] += c.read_scale[0] * torch.tanh(h @ c.read_map[0])
                    write[i] += c.write_scale[0] * torch.tanh(h @ c.write_map[0])
                    mixing[i] += c.read_scale * torch.tanh(c.mixing_map @ h)
            coefficients.append((read, mixing, write))
        expected.append(
            torch.stack(
                [sum(r[i] * t[i] for i in range(n)) for t, (r, _, _) in zip(rows, coefficients, strict=True)]
            )
        )
        for token, (_, mixing, write), y in zip(rows, coefficients, sublayer(expected[-1]), strict=True):
            token[:] = [sum(mixing[i, j] * token[i] for i in range(n)) + write[j] * y for j in range(n)]
    end = torch.stack([sum(token) for token in rows])
    check(stream, [*expected, end / n if form == "simplified" else end])


def sinkhorn_by_hand(logits: Tensor, eps: float = 1e-6) -> Tensor:
    """Columns, then rows, 20 times; the first time without eps in the sum of exp, which is a softmax."""
    matrix = logits.exp()
    matrix = matrix / matrix.sum(0) + eps
    matrix = matrix / (matrix.sum(1) + eps)[:, None]
    for _ in range(19):
        matrix = matrix / (matrix.sum(0) + eps)
        matrix = matrix / (matrix.sum(1) + eps)[:, None]
    return matrix


def test_mhc() -> None:
    n = 4
    stream = stream_of(residual="mhc", mhc_init="normal")
    rows = [torch.stack([e] * n) for e in embedding()]
    expected = []
    for sublayer, c in zip(sublayers(), stream.sublayers, strict=True):
        coefficients = []
        for x in rows:
            z = c.map @ x.flatten() / x.square().mean().sqrt()
            pre = torch.sigmoid(c.scales[0] * z[:n] + c.bias[:n]) + 1e-6
            post = 2 * torch.sigmoid(c.scales[1] * z[n : 2 * n] + c.bias[n : 2 * n])
            mixing = sinkhorn_by_hand((c.scales[2] * z[2 * n :] + c.bias[2 * n :]).view(n, n))
            coefficients.append((pre, post, mixing))
        expected.append(torch.stack([pre @ x for x, (pre, _, _) in zip(rows, coefficients, strict=True)]))
        rows = [
            mixing @ x + torch.outer(post, y)
            for x, (_, post, mixing), y in zip(rows, coefficients, sublayer(expected[-1]), strict=True)
        ]
    check(stream, [*expected, torch.stack([x.sum(0) for x in rows])])


@pytest.mark.parametrize("form", ["static", "dynamic"])
def test_frac_connections(form: str) -> None:
    m = 2
    stream = stream_of(residual="frac_connections", connections=form, streams=m)
    parts = [e.view(m, -1) for e in embedding()]
    expected = []
    for sublayer, c in zip(sublayers(), stream.sublayers, strict=True):
        coefficients = []
        for h in parts:
            read, mixing, write = c.read, c.mixing, c.write
            if form == "dynamic":
                normed = torch.nn.functional.layer_norm(h, h.shape[-1:], c.norm_weight, c.norm_bias)
                read = read + c.mixing_scale * torch.tanh(normed @ c.read_map.T)
                mixing = mixing + c.mixing_scale * torch.tanh(normed @ c.mixing_map.T)
                write = write + c.write_scale * torch.tanh(normed @ c.write_map[0])
            coefficients.append((read, mixing, write))
        expected.append(
            torch.stack([(r.T @ h).flatten() for h, (r, _, _) in zip(parts, coefficients, strict=True)])
        )
        parts = [
            write[:, None] * y.view(m, -1) + mixing.T @ h
            for h, (_, mixing, write), y in zip(parts, coefficients, sublayer(expected[-1]), strict=True)
        ]
    check(stream, [*expected, torch.stack([h.flatten() for h in parts])])


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize("n", [4, 8])
def test_xhc(n: int, flash: bool) -> None:
    """In the Flash form an MLP reads by the scores of its block's start, and attention mixes nothing."""
    stream = stream_of(residual="xhc_flash" if flash else "xhc", streams=n)
    k = {4: 2, 8: 4}[n]
    fixed = k // 2
    rows = [torch.stack([e] * n) for e in embedding()]
    starts = rows
    expected, chosen_streams = [], set()
    for site, (sublayer, c) in enumerate(zip(sublayers(), stream.sublayers, strict=True)):
        reads, plans = [], []
        starts = starts if site % 2 else rows
        for x in rows:
            u = starts[len(reads)].flatten() if flash and site % 2 else x.flatten()
            router = stream.sublayers[site - site % 2].router if flash else c.router
            scores = torch.sigmoid(router @ torch.nn.functional.layer_norm(u, u.shape)).detach()
            best = sorted(range(fixed, n), key=scores.tolist().__getitem__, reverse=True)[: k - fixed]
            active = [*range(fixed), *best]
            chosen_streams.update(best)
            pre = torch.sigmoid(c.scales[0] * (c.read_map @ rms_norm(u)) + c.read_bias)
            v = rms_norm(x[active].flatten())
            mixing = torch.eye(k, dtype=torch.float64)
            if not flash or site % 2:
                logits = (c.scales[1] * (c.mixing_map @ v) + c.mixing_bias).view(k, k)
                mixing = sinkhorn_by_hand(logits.T).T
                mixing = mixing / mixing.sum(1, keepdim=True).clamp(min=1)
            post = 2 * torch.sigmoid(c.scales[-1] * (c.write_map @ v) + c.write_bias).view(k, -1)
            share = torch.cat((torch.ones(fixed, dtype=torch.float64), scores[best]))
            reads.append(pre @ x)
            plans.append((active, mixing, share[:, None] * post))
        expected.append(torch.stack(reads))
        output = sublayer(expected[-1])
        components = [output]
        for kernel in c.kernels if site % 2 else ():
            conv = torch.zeros_like(output)
            for t in range(TOKENS):
                for back in range(min(t + 1, kernel.shape[1])):
                    conv[t] += kernel[:, -1 - back] * output[t - back]
            for earlier in components:
                square = earlier.square().sum(-1, keepdim=True) + 1e-6 * WIDTH
                conv = conv - (conv * earlier).sum(-1, keepdim=True) / square * earlier
            components.append(conv)
        rows = [x.clone() for x in rows]
        for t, (active, mixing, write) in enumerate(plans):
            rows[t][active] = mixing @ rows[t][active] + write @ torch.stack([y[t] for y in components])
    assert len(chosen_streams) > k - fixed  # the router does not always choose the same
    check(stream, [*expected, torch.stack([x.sum(0) for x in rows])])


@pytest.mark.parametrize("residual", ["mhc", "xhc", "xhc_flash", "hyper_connections", "frac_connections"])
def test_coefficients_are_computed_in_full_precision(residual: str) -> None:
    stream = perturb(build(job({"residual": residual}), torch.float32)).stream
    state = stream.begin(embedding()[None].to(torch.bfloat16))
    assert {figure.dtype for figure in stream.diagnose(state, 0).values()} == {torch.float32}
    assert stream.read(state, 0).dtype == torch.bfloat16


@pytest.mark.parametrize("residual", ["xhc", "xhc_flash"])
def test_streams_that_are_not_written_stay_as_they_are(residual: str) -> None:
    stream = stream_of(residual=residual, streams=8)
    state = stream.begin(embedding()[None])
    for site, sublayer in enumerate(sublayers()):
        before, x = state.rows[0], stream.read(state, site)[0]
        active = state.active[0].sum(-2) > 0
        stream.write(state, site, sublayer(x)[None])
        same = (state.rows[0] == before).all(-1)
        assert torch.equal(same, ~active)
        assert (active.sum(-1) == 4).all()
