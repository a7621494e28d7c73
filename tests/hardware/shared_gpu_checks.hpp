#pragma once
// What one of several processes that share a GPU checks: each call once with its arrays on the
// host, and once on the device. The bits are the same. A template over what a device array is, so
// that tests/fakes/nccl has it over stand-ins.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

template <template <class> class DeviceArray>
class SharedGpuChecks {
 public:
  SharedGpuChecks(sparclComm_t comm, int rank, int ranks)
      : comm_(comm), rank_(rank), ranks_(ranks) {}

  // How many checks have failed; each has said so on standard error.
  int run() {
    for (const std::size_t count : {std::size_t{1}, std::size_t{4'097}, std::size_t{300'001}}) {
      for (int root = 0; root < ranks_; ++root) check_delta(count, root);
      check_masked(count);
      check_top_k(count);
      check_sparse(count);
    }
    return failed_;
  }
  int made() const { return made_; }

 private:
  template <class Word>
  std::vector<Word> random(std::size_t count, std::uint64_t seed) const {
    std::mt19937_64 numbers(seed);
    std::vector<Word> words(count);
    for (Word& word : words) word = static_cast<Word>(numbers());
    return words;
  }
  std::vector<float> gradient(std::size_t count) const {
    std::mt19937_64 numbers(static_cast<std::uint64_t>(rank_) * 1000 + count);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(numbers);
    return values;
  }

  void must(sparclResult_t result, const char* what, std::size_t count) {
    ++made_;
    if (result == sparclSuccess) return;
    ++failed_;
    std::fprintf(stderr, "rank %d: %s of %zu elements: %s\n", rank_, what, count,
                 sparclGetLastError(comm_));
  }
  template <class T>
  void expect_same(const std::vector<T>& device, const std::vector<T>& host, const char* what) {
    ++made_;
    if (device.size() == host.size() &&
        std::memcmp(device.data(), host.data(), host.size() * sizeof(T)) == 0)
      return;
    ++failed_;
    std::fprintf(stderr, "rank %d: %s of %zu elements has other bits on the device\n", rank_, what,
                 host.size());
  }

  void check_delta(std::size_t count, int root) {
    const std::vector<std::uint16_t> base = random<std::uint16_t>(count, count);
    std::vector<std::uint16_t> target = base;
    for (std::size_t i = 0; i < count; i += 50)
      target[i] = static_cast<std::uint16_t>(target[i] + 1);
    const DeviceArray<std::uint16_t> weights(rank_ == root ? target : base), old(base);
    must(sparclBroadcastDelta(weights.data(), old.data(), count, sparclBfloat16, root, nullptr,
                              comm_, nullptr),
         "delta", count);
    expect_same(weights.read(), target, "delta");
  }

  void check_masked(std::size_t count) {
    sparclMask_t mask = nullptr;
    must(sparclMaskCreateRandom(&mask, count, 0.1, 7), "mask", count);
    const std::vector<float> own = gradient(count);
    std::vector<float> sum(count);
    const DeviceArray<float> send(own), receive(sum);
    must(sparclAllReduceMasked(own.data(), sum.data(), count, sparclFloat32, sparclSum, mask,
                               nullptr, nullptr, comm_, nullptr),
         "masked sum", count);
    must(sparclAllReduceMasked(send.data(), receive.data(), count, sparclFloat32, sparclSum, mask,
                               nullptr, nullptr, comm_, nullptr),
         "masked sum", count);
    expect_same(receive.read(), sum, "masked sum");
    must(sparclMaskDestroy(mask), "mask", count);
  }

  void check_top_k(std::size_t count) {
    const std::size_t k = count / 20 + 1;
    sparclFeedback_t on_host = nullptr, on_device = nullptr;
    must(sparclFeedbackCreate(&on_host, count, sparclFloat32), "feedback", count);
    must(sparclFeedbackCreate(&on_device, count, sparclFloat32), "feedback", count);
    const std::vector<float> own = gradient(count);
    std::vector<float> sum(count);
    const DeviceArray<float> send(own), receive(sum);
    for (int step = 0; step < 3; ++step) {
      must(sparclAllReduceTopK(own.data(), sum.data(), count, k, sparclFloat32, sparclAvg, on_host,
                               nullptr, comm_, nullptr),
           "top-k", count);
      must(sparclAllReduceTopK(send.data(), receive.data(), count, k, sparclFloat32, sparclAvg,
                               on_device, nullptr, comm_, nullptr),
           "top-k", count);
      expect_same(receive.read(), sum, "top-k");
    }
    must(sparclFeedbackDestroy(on_host), "feedback", count);
    must(sparclFeedbackDestroy(on_device), "feedback", count);
  }

  void check_sparse(std::size_t count) {
    std::vector<std::uint64_t> indices;
    for (std::size_t i = static_cast<std::size_t>(rank_); i < count; i += 30) indices.push_back(i);
    const std::vector<float> all = gradient(count);
    const std::vector<float> values(all.begin(),
                                    all.begin() + static_cast<std::ptrdiff_t>(indices.size()));
    std::vector<float> sum(count);
    std::vector<std::uint64_t> at(count);
    std::size_t nnz = 0, nnz_of_device = 0;
    const DeviceArray<float> send(values), receive(sum);
    const DeviceArray<std::uint64_t> send_at(indices), receive_at(at);
    must(sparclAllReduceSparse(values.data(), indices.data(), indices.size(), count, sum.data(),
                               at.data(), &nnz, count, sparclFloat32, sparclSum, nullptr, comm_,
                               nullptr),
         "sparse sum", count);
    must(sparclAllReduceSparse(send.data(), send_at.data(), indices.size(), count, receive.data(),
                               receive_at.data(), &nnz_of_device, count, sparclFloat32, sparclSum,
                               nullptr, comm_, nullptr),
         "sparse sum", count);
    const auto first = [](auto list, std::size_t so_many) {
      list.resize(so_many);
      return list;
    };
    expect_same(first(receive.read(), nnz_of_device), first(sum, nnz), "sparse sum");
    expect_same(first(receive_at.read(), nnz_of_device), first(at, nnz), "sparse sum's indices");
  }

  sparclComm_t comm_;
  int rank_, ranks_;
  int made_ = 0, failed_ = 0;
};

}  // namespace sparcl::test
