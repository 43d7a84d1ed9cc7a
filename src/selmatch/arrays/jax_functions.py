"""How JAX spells the functions that formulas use; imported only when a user has imported JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from selmatch.arrays import pytrees
from selmatch.arrays.jax_rows import rows
from selmatch.arrays.namespaces import SAME_NAME, STANDARD_NAME, copy_names, is_number


class Jax:
    name = "JAX"
    is_library = True
    abs = staticmethod(jnp.abs)
    where = staticmethod(jnp.where)
    xlogy = staticmethod(jax.scipy.special.xlogy)
    rounded_once = staticmethod(jax.lax.optimization_barrier)

    # at a bound that is a number the derivative is 1, as in torch.clamp, where jnp.minimum has 1/2
    @staticmethod
    def minimum(a, b):
        a, b = (b, a) if is_number(a) else (a, b)
        return jnp.where(a > b, b, a) if is_number(b) else jnp.minimum(a, b)

    @staticmethod
    def maximum(a, b):
        a, b = (b, a) if is_number(a) else (a, b)
        return jnp.where(a < b, b, a) if is_number(b) else jnp.maximum(a, b)

    @staticmethod
    def fold(x):
        return jnp.where(x > 0, -x, x)

    @staticmethod
    def positive_part(x):
        return jnp.where(x > 0, x, 0)

    @staticmethod
    def side(x):
        return jnp.where(x < 0, -1.0, 1.0)

    @staticmethod
    def within(x, bound):
        return jnp.where(jnp.abs(x) <= bound, x, 0)

    @staticmethod
    def double(x):
        return x.astype(jnp.float64) if jax.config.read("jax_enable_x64") else x

    @staticmethod
    def falling(value, x):
        at_end = x == 0
        return jnp.where(at_end, value - jnp.sqrt(jnp.where(at_end, x, 1.0)), value)

    @staticmethod
    def row_sum(x):
        return jnp.sum(x, axis=-1, keepdims=True)

    @staticmethod
    def layer_sum(x):
        return jnp.sum(x, axis=0)

    @staticmethod
    def running_sum(x):
        return jnp.cumsum(x, axis=-1)

    @staticmethod
    def position(knots, x):
        return jnp.searchsorted(knots, x, side="right")

    @staticmethod
    def take(x, places):
        return x.reshape(-1)[places]

    stacked = staticmethod(jnp.concatenate)

    @staticmethod
    def row_max(x):
        return jnp.max(x, axis=-1, keepdims=True)

    @staticmethod
    def segment_sum(x, ids, count):
        return jax.ops.segment_sum(x, ids, num_segments=count)

    @staticmethod
    def segment_max(x, ids, count):
        return jax.ops.segment_max(x, ids, num_segments=count)

    @staticmethod
    def integers(values, like):
        return jnp.asarray(values, dtype=int)

    @staticmethod
    def is_traced(x):
        return isinstance(x, Tracer)

    @staticmethod
    def known(x):
        """The values as a NumPy array; None inside a trace."""
        return None if isinstance(x, Tracer) else np.asarray(x)

    @staticmethod
    def ranks(ids):
        """The rank of each id among the different ones, and how many there are at most."""
        count = len(ids)
        return jnp.unique(ids, return_inverse=True, size=count)[1].reshape(count), count

    @staticmethod
    def lists_of(ends, count):
        """The list of each of ``count`` items, from where the lists end."""
        return jnp.searchsorted(ends, jnp.arange(count), side="right")

    @staticmethod
    def constant(x):
        return jax.lax.stop_gradient(x)

    @staticmethod
    def placed(items, positions, count):
        return jnp.zeros(count, dtype=items.dtype).at[positions].set(items)

    @staticmethod
    def like(values, x):
        return jnp.asarray(values, dtype=x.dtype)

    @staticmethod
    def is_single(x):
        return x.dtype.itemsize <= 4

    @staticmethod
    def is_floating(x):
        return jnp.issubdtype(x.dtype, jnp.floating)

    @staticmethod
    def widen(x):
        return x.astype(jnp.float32) if x.dtype in (jnp.float16, jnp.bfloat16) else x

    @staticmethod
    def cast(x, like):
        return x.astype(like.dtype)

    @staticmethod
    def ready(s_hat, s):
        return False

    @staticmethod
    def total(x):
        return jnp.sum(x)

    @staticmethod
    def mean(x):
        return jnp.mean(x)

    @staticmethod
    def losses(kind, loss, s, s_hat, present):
        """The loss of each row, with derivatives in closed form unless a formula of the user hides traced numbers."""
        own = list(pytrees.own_formulas(loss))
        if own and _hides_traced_numbers(own, s_hat):
            return kind.rows(loss, s, s_hat - s, s_hat, present)
        return rows(kind, loss, s, s_hat, present)

    @staticmethod
    def adopt(x):
        return jnp.asarray(x)

    @staticmethod
    def row_any(x):
        return jnp.any(x, axis=-1)

    @staticmethod
    def class_numbers(x):
        return jnp.arange(x.shape[-1])

    @staticmethod
    def broadcast(x, shape):
        return jnp.broadcast_to(x, shape)

    @staticmethod
    def outer(x, y):
        return x[..., :, None] * y[..., None, :]

    @staticmethod
    def diagonal_matrix(x):
        return x[..., :, None] * jnp.eye(x.shape[-1], dtype=x.dtype)


def _hides_traced_numbers(own, like):
    """Whether formulas of the user depend on numbers that a transformation knows, besides their argument."""
    score = jnp.ones(1, dtype=like.dtype)
    return bool(jax.closure_convert(lambda z: [part.link(part.point() * z) for part in own], score)[1])


copy_names(Jax, jnp, {name: name for name in (*SAME_NAME, *STANDARD_NAME)})
