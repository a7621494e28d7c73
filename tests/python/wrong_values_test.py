"""Every argument of the package, with values of wrong types: an error that names it, or the call works."""

import inspect

import numpy as np
import pytest

import sparcl

WRONG = (None, "x", b"x", "", -1, 5, 1.5, float("nan"), True, [], ["x"], [-1], {}, {"a": 5}, (), object(),
         np.zeros(3, "i2"), np.int32(4), 2**70)  # fmt: skip
SKIPPED = {"self", "options"}


def floats(count=10):
    return np.ones(count, np.float32)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with two checkpoints, a delta and a key; commands write to it."""
    folder = tmp_path_factory.mktemp("values")
    from sparcl._safetensors import save

    first, second = floats(), floats()
    second[3] = 7
    save({"w": first}, folder / "a.safetensors")
    save({"w": second}, folder / "b.safetensors")
    sparcl.diff(folder / "a.safetensors", folder / "b.safetensors", folder / "d.sparcl")
    sparcl.Aggregator(10).save(folder / "aggregator")
    sparcl.Feedback(10).save(folder / "feedback")
    return folder


class Calls:
    """Makes what is called: a method of something that lives, and its other arguments."""

    def __init__(self, place):
        self.place = place
        self.ended = []

    def kept(self, thing):
        self.ended.append(thing)
        return thing

    def end(self):
        while self.ended:
            self.ended.pop().close()

    def path(self, name):
        return self.place / name

    def comm(self):
        return self.kept(sparcl.Comm.local(1)[0])

    def state(self, **options):
        return sparcl.State({"w": floats()}, **options)

    def store(self):
        return self.kept(sparcl.Store(f"file:{self.path('store')}"))

    def publisher(self):
        publisher = self.kept(sparcl.Publisher({"w": floats()}))
        publisher.publish(1)
        return publisher

    def subscriber(self):
        return self.kept(sparcl.Subscriber({"w": floats()}, self.publisher().address))

    def aggregator(self):
        return self.kept(sparcl.Aggregator(10))

    def worker(self):
        aggregator = self.aggregator()
        aggregator.serve({"w": floats()})
        worker = self.kept(sparcl.Worker({"w": floats()}, aggregator.address))
        worker.next(20)
        return worker


INDICES = np.array([1, 2], np.uint64)
#: A call, with arguments that work. Those that are missing have defaults.
CALLS = {
    "State": lambda c: (sparcl.State, {}),
    "State.add": lambda c: (c.state().add, dict(name="v", array=floats())),
    "State.add_slice": lambda c: (c.state().add_slice, dict(name="v", array=floats(), shape=[20], begin=[0])),
    "State.add_master": lambda c: (c.state().add_master, dict(name="v", master=floats(), dtype="bfloat16")),
    "State.mark_indices": lambda c: (c.state().mark_indices, dict(name="w", indices=INDICES)),
    "State.mark_blocks": lambda c: (c.state().mark_blocks, dict(name="w", bitmap=INDICES, block=5)),
    "State.set_trainable": lambda c: (c.state().set_trainable, dict(name="w", trainable=True)),
    "State.set_priority": lambda c: (c.state().set_priority, dict(name="w", priority=1)),
    "State.from_state_dict": lambda c: (sparcl.State.from_state_dict, dict(state_dict={"w": floats()})),
    "Comm.local": lambda c: (sparcl.Comm.local, dict(n=1)),
    "Comm.from_id": lambda c: (
        sparcl.Comm.from_id, dict(id=sparcl.unique_id(), count=1, rank=0, transport="loopback", timeout=1)),
    "Comm.refuse": lambda c: (c.comm().refuse, {}),
    "Comm.use_nccl": lambda c: (c.comm().use_nccl, {}),
    "Comm.synchronise": lambda c: (c.comm().synchronise, {}),
    "Comm.broadcast_delta": lambda c: (c.comm().broadcast_delta, dict(weights=floats(), base=floats())),
    "Comm.broadcast_update": lambda c: (c.comm().broadcast_update, dict(state=c.state(), version=1)),
    "Comm.broadcast_sparse": lambda c: (c.comm().broadcast_sparse, dict(values=floats(2), indices=INDICES)),
    "Comm.all_reduce_masked": lambda c: (
        c.comm().all_reduce_masked, dict(x=floats(), mask=sparcl.Mask(INDICES, 10))),
    "Comm.all_reduce_top_k": lambda c: (c.comm().all_reduce_top_k, dict(x=floats(), k=2)),
    "Comm.all_reduce_sparse": lambda c: (
        c.comm().all_reduce_sparse, dict(values=floats(2), indices=INDICES, count=10)),
    "Comm.aggregate": lambda c: (c.comm().aggregate, dict(values=floats(2), indices=INDICES, count=10)),
    "Mask": lambda c: (sparcl.Mask, dict(indices=INDICES, count=10)),
    "Mask.random": lambda c: (sparcl.Mask.random, dict(count=10, density=0.5)),
    "Mask.set_step": lambda c: (sparcl.Mask.random(10, 0.5).set_step, dict(step=1)),
    "Feedback": lambda c: (sparcl.Feedback, dict(count=10)),
    "Feedback.load": lambda c: (sparcl.Feedback.load, dict(path=c.path("feedback"))),
    "Feedback.save": lambda c: (sparcl.Feedback(10).save, dict(path=c.path("feedback2"))),
    "Publisher": lambda c: (sparcl.Publisher, dict(state={"w": floats()})),
    "Publisher.publish": lambda c: (c.publisher().publish, {}),
    "Publisher.wait": lambda c: (c.publisher().wait, dict(version=1, acks=0, timeout=0.01)),
    "Publisher.wait_stored": lambda c: (c.publisher().wait_stored, dict(version=1, timeout=0.01)),
    "Publisher.count": lambda c: (c.publisher().count, {}),
    "Subscriber": lambda c: (sparcl.Subscriber, dict(state={"w": floats()}, address=c.publisher().address)),
    "Subscriber.next": lambda c: (c.subscriber().next, dict(timeout=10)),
    "Subscriber.prepare": lambda c: (c.subscriber().prepare, dict(timeout=10)),
    "Subscriber.commit": lambda c: (c.subscriber().commit, dict(version=1)),
    "Subscriber.next_group": lambda c: (c.subscriber().next_group, dict(comm=c.comm(), timeout=10)),
    "Subscriber.tensor": lambda c: (c.subscriber().tensor, dict(name="w")),
    "Subscriber.pin": lambda c: (c.subscriber().pin, dict(version=0)),
    "Store": lambda c: (sparcl.Store, dict(url=f"file:{c.path('store')}")),
    "Store.publish": lambda c: (c.store().publish, dict(state={"w": floats()})),
    "Store.restore": lambda c: (c.store().restore, dict(state={"w": floats()})),
    "Store.verify": lambda c: (c.store().verify, {}),
    "Store.prune": lambda c: (c.store().prune, dict(versions=2)),
    "Store.copy": lambda c: (c.store().copy, dict(to=c.kept(sparcl.Store(f"file:{c.path('copy')}")))),
    "Aggregator": lambda c: (sparcl.Aggregator, dict(count=10)),
    "Aggregator.load": lambda c: (sparcl.Aggregator.load, dict(path=c.path("aggregator"))),
    "Aggregator.save": lambda c: (c.aggregator().save, dict(path=c.path("aggregator2"))),
    "Aggregator.serve": lambda c: (c.aggregator().serve, dict(state={"w": floats()})),
    "Worker": lambda c: (sparcl.Worker, dict(state={"w": floats()}, address="127.0.0.1:1")),
    "Worker.next": lambda c: (c.worker().next, dict(timeout=0.01)),
    "Worker.contribute": lambda c: (c.worker().contribute, {}),
    "Worker.flush": lambda c: (c.worker().flush, dict(timeout=0.01)),
    "diff": lambda c: (sparcl.diff, dict(base=c.path("a.safetensors"), target=c.path("b.safetensors"), output=c.path("e"))),
    "apply": lambda c: (sparcl.apply, dict(base=c.path("a.safetensors"), delta=c.path("d.sparcl"), output=c.path("f"))),
    "verify": lambda c: (sparcl.verify, dict(path=c.path("d.sparcl"))),
    "compose": lambda c: (sparcl.compose, dict(deltas=[c.path("d.sparcl")], output=c.path("g"))),
    "invert": lambda c: (sparcl.invert, dict(base=c.path("a.safetensors"), delta=c.path("d.sparcl"), output=c.path("h"))),
    "convert": lambda c: (sparcl.convert, dict(input=c.path("d.sparcl"), output=c.path("i"), to="grail", base=c.path("a.safetensors"))),
    "hash": lambda c: (sparcl.hash, dict(checkpoint=c.path("a.safetensors"))),
    "sign": lambda c: (sparcl.sign, dict(path=c.path("d.sparcl"), key=c.path("none.key"))),
    "verify_signature": lambda c: (sparcl.verify_signature, dict(path=c.path("d.sparcl"), trust=c.path("none.pub"))),
    "advise": lambda c: (sparcl.advise, dict(first=c.path("a.safetensors"), second=c.path("b.safetensors"))),
}


def lasts(seconds):
    return seconds is None or isinstance(seconds, (int, float, np.integer)) and seconds >= 1


# What is told by the wrong argument's text; "" if the value works, or is refused well.
def fault_of(call, given, argument, value):
    try:
        made = call(**{**given, argument: value})
    except (sparcl.Error, TypeError, ValueError, OSError) as error:
        text = str(error)
        if "incompatible function" in text or "no attribute" in text or "sparcl._core" in text:
            return f"the binding's own text: {text.splitlines()[0]}"
        if not text:
            return "no text"
        if isinstance(error, TypeError) and argument not in text and "tensor" not in text and "no model" not in text:
            return f"the argument has no name: {text}"
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if hasattr(made, "close") and not isinstance(made, sparcl.State):
        made.close()
    return ""


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_value_is_refused_by_name(name, place, monkeypatch):
    monkeypatch.chdir(place)  # words that are paths
    calls = Calls(place)
    faults = []
    call, given = CALLS[name](calls)
    for argument in inspect.signature(call).parameters:
        if argument in SKIPPED:
            continue
        for value in WRONG:
            if argument == "timeout" and lasts(value):
                continue
            calls.end()
            call, given = CALLS[name](calls)
            fault = fault_of(call, given, argument, value)
            if fault:
                faults.append(f"{argument}={value!r}: {fault}")
    calls.end()
    assert not faults, "\n".join(faults)
