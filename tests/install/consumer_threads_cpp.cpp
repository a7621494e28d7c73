// What a C++20 program needs of the install tree: a model over ranks as threads, twice, and an
// error as an exception.
#include <cstdio>
#include <numeric>
#include <sparcl/file.hpp>
#include <sparcl/sparcl.hpp>
#include <thread>
#include <vector>

namespace {

constexpr int kRanks = 2;

bool run_rank(sparcl::Comm& comm, sparcl::Hash& hash) {
  std::vector<float> matrix(300 * 200);
  std::vector<std::uint16_t> bias(200);
  sparcl::State state;
  state.add("matrix", std::span(matrix), {300, 200});
  state.add("bias", std::span(bias), {200});
  if (comm.rank() == 0) std::iota(matrix.begin(), matrix.end(), 1.0F);
  comm.broadcast_update(state, 1, 0);
  if (comm.rank() == 0) matrix[7] = -1, bias[199] = 9;
  const sparcl::Report report = comm.broadcast_update(state, 2, 0);
  hash = state.hash();
  return matrix[7] == -1 && matrix[8] == 9 && bias[199] == 9 && report.nnz_out == 2 &&
         state.version() == 2;
}

bool refuses_a_rank_count_of_none() {
  try {
    sparcl::Comm::local(0);
  } catch (const sparcl::Error& error) {
    return error.result() == sparclInvalidArgument && error.what()[0] != '\0';
  }
  return false;
}

bool names_a_missing_file() {
  try {
    (void)sparcl::file::verify("no_such_file");
  } catch (const sparcl::Error& error) {
    return error.result() == sparclSystemError;
  }
  return false;
}

}  // namespace

int main() {
  std::vector<sparcl::Comm> comms = sparcl::Comm::local(kRanks);
  std::vector<sparcl::Hash> hashes(kRanks);
  std::vector<int> good(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] { good[rank] = run_rank(comms[rank], hashes[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  const bool passed = good[0] && good[1] && hashes[0] == hashes[1] &&
                      refuses_a_rank_count_of_none() && names_a_missing_file();
  std::puts(passed ? "both ranks hold version 2" : "FAILED");
  return passed ? 0 : 1;
}
