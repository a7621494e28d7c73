"""Threads, signals, fork and the end of the interpreter: an exception or a clean end, never a crash."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sparcl
from conftest import run_python

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def interrupted(program, after=1.0):
    """Runs a program, sends it Ctrl-C once it prints "ready", and returns its end and seconds."""
    run = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "ready\n", run.stderr.read()
    time.sleep(0.3)
    begin = time.monotonic()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    return run.returncode, out, err, time.monotonic() - begin


PREFIX = "import numpy as np, sparcl, threading, time\n"


def test_ctrl_c_ends_a_collective_by_aborting_it():
    code, out, err, seconds = interrupted(
        PREFIX
        + """
comms = sparcl.Comm.local(2)
def other():
    try:
        comms[1].all_reduce_top_k(np.ones(3), 1)
        comms[1].all_reduce_top_k(np.ones(3), 1)
        comms[1].all_reduce_top_k(np.ones(3), 1)
    except sparcl.Error as error:
        print("other", type(error).__name__)
thread = threading.Thread(target=other); thread.start()
comms[0].all_reduce_top_k(np.ones(3), 1)
print("ready", flush=True)
comms[0].all_reduce_top_k(np.ones(3), 1)
comm3, nobody = sparcl.Comm.local(2)
try:
    comm3.all_reduce_top_k(np.ones(3), 1)  # nobody answers
except KeyboardInterrupt:
    print("interrupted", comm3.error.__name__)
comms[0].abort()
thread.join()
"""
    )
    assert code == 0 and "interrupted RemoteError" in out and "other RemoteError" in out, (out, err)
    assert seconds < 10


def test_ctrl_c_ends_the_wait_for_a_version():
    code, out, err, seconds = interrupted(
        PREFIX
        + """
subscriber = sparcl.Subscriber({"w": np.zeros(3)}, sparcl.Publisher({"w": np.zeros(3)}).address)
print("ready", flush=True)
subscriber.next()
"""
    )
    assert code == -signal.SIGINT and "KeyboardInterrupt" in err and seconds < 10, (out, err)


def test_the_handler_of_the_user_runs():
    code, out, err, _ = interrupted(
        PREFIX
        + """
import signal
signal.signal(signal.SIGINT, lambda *_: print("mine", flush=True))
comm, nobody = sparcl.Comm.local(2)
print("ready", flush=True)
try:
    comm.all_reduce_top_k(np.ones(3), 1)
except sparcl.RemoteError:
    print("aborted")
"""
    )
    assert code == 0 and "mine\naborted\n" in out, (out, err)


def test_the_interpreter_ends_with_all_alive():
    run = run_python(
        PREFIX
        + """
weights, copy = {"w": np.zeros(100000, np.float32)}, {"w": np.zeros(100000, np.float32)}
publisher = sparcl.Publisher(weights)
subscriber = sparcl.Subscriber(copy, publisher.address)
publisher.publish(1); subscriber.next(10)
comms = sparcl.Comm.local(2)
request = comms[0].i_all_reduce_top_k(np.ones(1000), 10)
sparcl.Comm.local(1)[0].i_all_reduce_top_k(np.ones(1000), 10)
store = sparcl.Store("file:/nowhere")
waiting = threading.Thread(target=lambda: subscriber.next(60), daemon=True); waiting.start()
cycle = [publisher, subscriber, comms, request]; cycle.append(cycle)
print("end")
"""
    )
    assert (run.returncode, run.stdout) == (0, "end\n"), run.stderr


def test_exceptions_and_garbage_leave_nothing():
    def use():
        state = sparcl.State({"w": np.zeros(1000)})
        publisher = sparcl.Publisher(state)
        subscriber = sparcl.Subscriber({"w": np.zeros(1000)}, publisher.address)
        publisher.publish()
        subscriber.next(10)
        comm = sparcl.Comm.local(1)[0]
        comm.i_all_reduce_top_k(np.zeros(10), 1)
        raise RuntimeError("the user's")

    threads = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        with pytest.raises(RuntimeError):
            use()
        gc.collect()
    deadline = time.monotonic() + 10
    while len(os.listdir("/proc/self/task")) > threads + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(os.listdir("/proc/self/task")) <= threads + 2


def test_a_child_of_fork_cannot_use_them_and_harms_nothing():
    run = run_python(
        PREFIX
        + """
import os
weights, copy = {"w": np.zeros(1000)}, {"w": np.zeros(1000)}
publisher = sparcl.Publisher(weights)
subscriber = sparcl.Subscriber(copy, publisher.address)
publisher.publish(); subscriber.next(10)
comm = sparcl.Comm.local(1)[0]
child = os.fork()
if child == 0:
    for use in (lambda: publisher.publish(), lambda: subscriber.next(1)):
        try: use()
        except sparcl.InvalidUsageError as error: pass
    fresh = sparcl.Comm.local(1)[0]
    assert fresh.all_reduce_top_k(np.ones(5), 5).sum() == 5
    del publisher, subscriber, comm
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
weights["w"][3] = 1
publisher.publish(); assert subscriber.next(10) == 2 and copy["w"][3] == 1
assert comm.all_reduce_top_k(np.ones(5), 5).sum() == 5
print("end")
"""
    )
    assert (run.returncode, run.stdout) == (0, "end\n"), run.stderr


def work_of_a_pool(rank):
    return sparcl.Comm.local(1)[0].all_reduce_top_k(np.full(5, rank), 5).sum()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method):
    run = run_python(
        PREFIX
        + f"""
import multiprocessing, sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
from lifetime_test import work_of_a_pool
if __name__ == "__main__":
    alive = sparcl.Publisher({{"w": np.zeros(10)}})
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(pool.map(work_of_a_pool, range(3)))
"""
    )
    assert (run.returncode, run.stdout) == (0, "[0, 5, 10]\n"), run.stderr


def test_two_threads_of_one_communicator():
    comms = sparcl.Comm.local(2)
    errors = []

    def wait():
        try:
            comms[0].all_reduce_top_k(np.ones(3), 1)
        except sparcl.Error as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    with pytest.raises(sparcl.InvalidUsageError):
        comms[0].all_reduce_top_k(np.ones(3), 1)
    with pytest.raises(sparcl.InvalidUsageError):
        comms[0].close()
    comms[0].abort()
    thread.join()
    assert isinstance(errors[0], sparcl.RemoteError)
    comms[0].close()


def test_the_interpreter_goes_on_while_a_call_waits():
    """The GIL is released: another thread computes while a call blocks."""
    comms = sparcl.Comm.local(2)
    result = []
    thread = threading.Thread(target=lambda: result.append(comms[0].all_reduce_top_k(np.ones(3), 3)))
    thread.start()
    count = 0
    begin = time.monotonic()
    while time.monotonic() - begin < 0.1:
        count += 1
    assert count > 1000 and not result
    comms[1].all_reduce_top_k(np.ones(3), 3)
    thread.join()
    assert result[0].sum() == 6


def test_ctrl_c_ends_a_meeting():
    code, _, err, seconds = interrupted(
        PREFIX
        + """
print("ready", flush=True)
sparcl.Comm.from_id(sparcl.unique_id(), 2, 0, timeout=30)
"""
    )
    assert code == -signal.SIGINT and "KeyboardInterrupt" in err and seconds < 10, err


def test_a_thread_in_a_callback_does_not_abort_the_end(tmp_path):
    run = run_python(
        PREFIX
        + f"""
import threading
def slow(done, all): time.sleep(0.05)
big = {{"w": np.zeros(1 << 20, np.float32)}}
work = lambda: sparcl.diff(big, {{"w": np.ones(1 << 20, np.float32)}}, {str(tmp_path / "d")!r}, on_progress=slow)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.4)
print("end")
"""
    )
    assert (run.returncode, run.stdout) == (0, "end\n"), run.stderr


def test_what_a_request_failed_with_is_raised_each_time():
    comms = sparcl.Comm.local(2)
    call = comms[0].i_all_reduce_top_k(np.ones(3), 1)
    comms[1].close()
    for _ in range(2):
        with pytest.raises(sparcl.RemoteError):
            call.wait()
        with pytest.raises(sparcl.RemoteError):
            call.test()


def test_arrays_of_a_subscriber_outlive_it():
    trained = {"a": np.arange(6.0), "b": np.ones(4)}
    with sparcl.Publisher(trained) as publisher:
        publisher.publish()
        for double in (False, True):
            served = {name: np.zeros_like(each) for name, each in trained.items()}
            with sparcl.Subscriber(served, publisher.address, double_buffer=double) as subscriber:
                subscriber.next(10)
                shown = subscriber.tensor("a")
            with pytest.raises(sparcl.InvalidUsageError, match="closed"):
                subscriber.next(1)
            del subscriber, served
            gc.collect()
            assert shown.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_refused_array_is_let_go():
    buffer = bytearray(40)
    alone = sparcl.Comm.local(1)[0]
    with pytest.raises(sparcl.InvalidArgumentError):
        alone.all_reduce_top_k(np.ones(3), 1, out=memoryview(buffer).cast("f")[::2])
    with pytest.raises(sparcl.InvalidArgumentError):
        alone.all_reduce_top_k(memoryview(buffer).cast("f").toreadonly(), 1, out=memoryview(buffer).cast("f")[::2])
    gc.collect()
    buffer.extend(b"more")


def test_requests_are_dropped_on_another_thread():
    program = """
import queue, threading
import numpy as np, sparcl
a, b = sparcl.Comm.local(2)
x = np.arange(100, dtype=np.float32)
q = queue.SimpleQueue()
def drop():
    while q.get() is not None:
        pass
d = threading.Thread(target=drop)
d.start()
for i in range(1500):
    q.put(a.i_all_reduce_top_k(x, 1))
q.put(None)
d.join()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr.decode()


def test_a_refusal_beside_another_thread_is_not_the_result():
    comms = sparcl.Comm.local(2)
    for _ in range(50):
        request = comms[0].i_all_reduce_top_k(np.ones(1000), 10)
        refused = []

        def look():
            for _ in range(100):
                try:
                    request.test()
                except sparcl.InvalidUsageError as error:
                    refused.append(error)

        other = threading.Thread(target=look)
        other.start()
        partner = comms[1].i_all_reduce_top_k(np.ones(1000), 10)
        partner_thread = threading.Thread(target=partner.wait)
        partner_thread.start()
        while not request._call.done:
            try:
                request.wait()
            except sparcl.InvalidUsageError:
                pass
        other.join()
        partner_thread.join()
        request.wait()  # again: what it gave


# --- memory that is elsewhere ---


def test_an_array_that_was_moved_is_refused():
    weights = np.ones(1000, np.float32)
    with sparcl.Publisher({"w": weights}) as publisher:
        publisher.publish()
        weights.resize(10, refcheck=False)
        with pytest.raises(sparcl.InvalidUsageError, match="not where it was"):
            publisher.publish()


@pytest.mark.parametrize("side", ["publisher", "subscriber"])
def test_a_torch_tensor_that_was_moved_is_refused(side):
    torch = pytest.importorskip("torch")
    trained, served = torch.ones(1000), torch.zeros(1000)
    with sparcl.Publisher({"w": trained}) as publisher:
        publisher.publish()
        with sparcl.Subscriber({"w": served}, publisher.address) as subscriber:
            if side == "publisher":
                trained.data = torch.ones(1000)
            else:
                served.data = torch.zeros(1000)
            call = publisher.publish if side == "publisher" else lambda: subscriber.next(10)
            with pytest.raises(sparcl.InvalidUsageError, match="not where it was"):
                call()


def test_a_dict_with_other_arrays_is_refused():
    def arrays():
        return {"w": np.ones(10, np.float32)}

    trained, served = arrays(), arrays()
    with sparcl.Publisher(trained) as publisher:
        publisher.publish()
        with sparcl.Subscriber(served, publisher.address) as subscriber:
            served.update(arrays())
            with pytest.raises(sparcl.InvalidUsageError, match="another array"):
                subscriber.next(10)
        trained["new"] = np.ones(3, np.float32)
        with pytest.raises(sparcl.InvalidUsageError, match="'new' has come"):
            publisher.publish()
        del trained["new"], trained["w"]
        with pytest.raises(sparcl.InvalidUsageError, match="is gone"):
            publisher.publish()


def test_threads_that_publish_get_versions_of_their_own():
    with sparcl.Publisher({"w": np.ones(1000, np.float32)}) as publisher:
        versions = []
        threads = [threading.Thread(target=lambda: versions.append(publisher.publish())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(versions) == list(range(1, 9))


def test_a_dropped_checkpoint_ends_its_program(tmp_path):
    with sparcl.Publisher({"w": np.ones(1000, np.float32)}) as publisher:
        publisher.publish()
        checkpoint = sparcl.Subscriber.into_checkpoint(tmp_path / "w.safetensors", publisher.address)
        assert checkpoint.next(30) == 1
        process = checkpoint._running._process
        del checkpoint
        gc.collect()
        assert process.poll() is not None


def test_objects_are_not_copied():
    import copy
    import pickle

    state = sparcl.State({"w": np.ones(2, np.float32)})
    for each in (state, sparcl.Publisher(state), sparcl.Comm.local(1)[0], sparcl.Feedback(2)):
        for call in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                call(each)
