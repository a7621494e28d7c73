// Four ranks, here threads, hold the same million weights; rank 0 changes a few, and every rank
// gets them.
#include <cstdio>
#include <functional>
#include <future>
#include <sparcl/sparcl.hpp>
#include <vector>

void run(sparcl::Comm& comm) {
  const std::vector<float> base(1'000'000, 1.0F);  // what all ranks hold
  std::vector<float> weights = base;
  if (comm.rank() == 0) weights[3] = weights[999'999] = 0.25F;
  const sparcl::Report report = comm.broadcast_delta<float>(weights, base, 0);
  std::printf("rank %d: weights[3] = %.2f, %llu bytes received instead of %llu\n", comm.rank(),
              weights[3], static_cast<unsigned long long>(report.bytes_received),
              static_cast<unsigned long long>(report.bytes_dense));
}

int main() try {
  std::vector<sparcl::Comm> comms = sparcl::Comm::local(4);
  std::vector<std::future<void>> ranks;
  for (sparcl::Comm& comm : comms)
    ranks.push_back(std::async(std::launch::async, run, std::ref(comm)));
  for (std::future<void>& rank : ranks) rank.get();
} catch (const sparcl::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
