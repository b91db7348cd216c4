"""What the processes of a distributed run agree on: the first that has an answer publishes it, and the
others take it.

Each rank measures on its own, so costs differ, and so would plans. Answers are kept in the store of
torch.distributed's default process group, by a name made of all that they depend on besides the costs.
Nobody waits: a rank looks whether an answer is there, finds its own if not, and puts it there unless another
rank was faster (``compare_set``), whose answer it takes then. A collective would need all ranks to compile
the same graphs in the same order; a pipeline's stages do not, and neither does a rank that finds its code
compiled already.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable

import torch.distributed as dist

from rk.errors import BudgetError

Name = Callable[[], str]
"""Names are made only where there are several processes."""
_REFUSED = "refused"


def agreed(name: Name, find: Callable[[], dict], *, finds: bool = False) -> dict:
    """The answer of whoever had it first; ``find`` gives this process's own, and is called if there is none
    yet, or if ``finds`` says so. Answers are JSON; a BudgetError is one, too, and all ranks raise it.
    """
    if not are_several():
        return find()
    answer = None if finds else read(name)
    if answer is None:
        try:
            answer = offer(name, find())
        except BudgetError as error:
            answer = offer(name, {_REFUSED: str(error), **vars(error)})
    if _REFUSED not in answer:
        return answer
    error = BudgetError(answer[_REFUSED])
    vars(error).update((key, value) for key, value in answer.items() if key != _REFUSED)
    raise error


def read(name: Name) -> dict | None:
    """What some rank has published under this name; None if there is nothing."""
    return _asked(name, lambda store, key: _unpacked(store.get(key)) if store.check([key]) else None)


def offer(name: Name, answer: dict) -> dict:
    """Publishes an answer; what counts is what is returned."""
    taken = _asked(name, lambda store, key: _unpacked(store.compare_set(key, "", _packed(answer))))
    return answer if taken is None else taken


def are_several() -> bool:
    """Whether this process trains with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _asked(name: Name, ask: Callable[[dist.Store, str], dict | None]) -> dict | None:
    if not are_several():
        return None
    try:
        return ask(dist.PrefixStore("rk", dist.distributed_c10d._get_default_store()), name())
    except (RuntimeError, NotImplementedError, ValueError, zlib.error) as error:
        # If more is wrong than this, the user's run will tell.
        warnings.warn(
            f"rk: the store of the default process group gives no answers ({error}), so this rank plans on "
            "its own, and other ranks may have other plans; the bits are the same",
            stacklevel=2,
        )
        return None


def _packed(answer: dict) -> str:
    # Stores take text.
    return zlib.compress(json.dumps(answer).encode()).hex()


def _unpacked(text: bytes) -> dict:
    return json.loads(zlib.decompress(bytes.fromhex(text.decode())))
