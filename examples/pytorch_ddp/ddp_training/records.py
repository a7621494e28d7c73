"""Records of a run: lines on the terminal, JSON lines in a file, and TensorBoard."""

import json
import logging
import os
import time


class Records:
    """Rank 0 writes; the other ranks do nothing."""

    def __init__(self, settings, rank, is_resumed):
        self._log = logging.getLogger("train")
        self._file = self._board = None
        self._began = time.monotonic()
        if rank != 0:
            return
        logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        self._log.setLevel(logging.INFO)
        folder = settings.output.folder
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "steps.jsonl")
        self._file = open(path, "a" if is_resumed else "w", encoding="utf-8")
        if settings.output.tensorboard:
            self._board = make_board(folder)

    def write(self, kind, step, **facts):
        """One record: kind is "train" or "test"."""
        if self._file is None:
            return
        facts = {"kind": kind, "step": step, "seconds": time.monotonic() - self._began, **facts}
        self._file.write(json.dumps(facts) + "\n")
        self._file.flush()
        shown = ", ".join(f"{key} {value:.4g}" for key, value in facts.items() if key != "kind")
        self._log.info("%s: %s", kind, shown)
        if self._board is not None:
            for key, value in facts.items():
                if key not in ("kind", "step"):
                    self._board.add_scalar(f"{kind}/{key}", value, step)

    def close(self):
        for each in (self._file, self._board):
            if each is not None:
                each.close()


def make_board(folder):
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SystemExit(
            f"tensorboard cannot be imported ({error}): run `pip install tensorboard`, or leave "
            "out --tensorboard"
        ) from None
    return SummaryWriter(folder)
