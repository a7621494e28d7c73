"""torch.topk of what bench_cuda's top-k takes, for its table: python3 torch_top_k.py [MILLIONS_OF_ELEMENTS (of 2**20)]"""
import statistics
import sys

try:
    import torch
except ImportError:
    print("skipped: no PyTorch (pip install torch)")
    sys.exit(0)
if not torch.cuda.is_available():
    print("skipped: PyTorch finds no GPU")
    sys.exit(0)

count = int(sys.argv[1] if len(sys.argv) > 1 else 256) << 20
gradient = torch.randn(count, device="cuda")
residual = torch.randn(count, device="cuda")


def with_feedback():
    accumulated = gradient + residual
    _, indices = torch.topk(accumulated.abs(), count // 100, sorted=False)
    values = accumulated[indices]
    accumulated[indices] = 0
    return values, indices, accumulated


def median_ms(call, rounds=11):
    call()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(400_000)  # cycles: the GPU is busy until the call has been enqueued
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


print(f"| torch.topk 1 % of {count >> 20} Mi float32, PyTorch {torch.__version__} | {median_ms(lambda: torch.topk(gradient.abs(), count // 100, sorted=False)):.3f} | asked: 5 times ours |")
print(f"| the same with error feedback | {median_ms(with_feedback):.3f} | |")
