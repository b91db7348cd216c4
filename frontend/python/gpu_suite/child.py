"""The process that measures rows of one network: reads them as JSON lines, answers each with one.

If it hangs or dies, its parent starts another one for the rows that are left.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    """Serves until its input ends."""
    # Whatever prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    about = json.loads(sys.stdin.readline())

    import torch

    from gpu_suite import chapters, steps
    from gpu_suite.rows import Context, Row

    device = torch.device(about["device"])
    if device.type == "cuda":
        device = torch.device("cuda", 0)
        torch.cuda.init()
    elif about["threads"]:
        torch.set_num_threads(about["threads"])
    context = Context(device, about["small"])
    chapter = chapters.CHAPTERS[about["chapter"]].worker(context)
    answers.write(json.dumps(machine(device)) + "\n")
    for line in sys.stdin:
        row = Row(**json.loads(line))
        start = time.perf_counter()
        try:
            if row.about.get("crash"):
                os._exit(int(row.about["crash"]))
            if row.about.get("hang"):
                time.sleep(row.about["hang"])
            if hasattr(chapter, "prepare"):
                # Several are prepared at once; measured is one alone, when the parent says so.
                prepared = chapter.prepare(row)
                answers.write(json.dumps({"prepared": round(time.perf_counter() - start, 2)}) + "\n")
                sys.stdin.readline()
                start = time.perf_counter()
                numbers = {**prepared, **chapter.run(row)}
            else:
                numbers = chapter.run(row)
        except Exception as error:  # noqa: BLE001 - a row that fails is a result, too
            numbers = failure(error)
        numbers["row_seconds"] = round(time.perf_counter() - start, 2)
        answers.write(json.dumps(numbers) + "\n")
        numbers = None
        if hasattr(chapter, "forget"):
            chapter.forget()
        try:
            steps.forget(device)
        except Exception:  # noqa: BLE001 - the card is lost to this process
            traceback.print_exc()
            os._exit(1)


def failure(error: BaseException) -> dict[str, Any]:
    """What is kept of an error: of the one that a compiler wrapped, and all of the way to it."""
    inner = getattr(error, "inner_exception", None) or error
    text = "".join(traceback.format_exception(error))
    # Numbers are published, and where a machine keeps its files is not.
    for folder in (sys.prefix, sys.base_prefix, Path(__file__).parents[3]):
        text = text.replace(f'"{folder}/', '"')
    return {
        "error": f"{type(inner).__name__}: {str(inner)[:600]}",
        "traceback": text if len(text) < 12000 else f"{text[:4000]}\n...\n{text[-8000:]}",
    }


def machine(device: Any) -> dict[str, Any]:
    """The card and the versions that every row is of."""
    import subprocess

    import torch

    about = {"torch": torch.__version__, "cuda": torch.version.cuda, "card": "none", "driver": "none"}
    if device.type == "cuda":
        about["card"] = torch.cuda.get_device_name(device)
        about["card_gigabytes"] = round(torch.cuda.get_device_properties(device).total_memory / 2**30, 1)
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
            about["driver"] = (said.split("\n")[0]).strip() or "unknown"
        except (OSError, subprocess.SubprocessError):
            about["driver"] = "unknown"
    else:
        about["card"] = "none: rehearsed on the CPU"
    return about


if __name__ == "__main__":
    main()
