#pragma once
// What others send, written from their published layouts, on the same input: to be compared with,
// as good as these layouts can be (positions are found by this library's own diff).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/codec/bench_data.hpp"
#include "kernels/kernel_set.hpp"

namespace sparcl::bench {

using Bytes = std::vector<std::byte>;

struct PeerCodec {
  std::string name;
  std::function<Bytes(const Input&, const kernels::KernelSet&)> encode;
  std::function<void(const Input&, const Bytes&, std::byte* held)>
      apply;                                    // in place; held is the base
  std::uint64_t max_bytes = ~std::uint64_t{0};  // of an array: larger ones take too long
  int max_rounds = 1000;
  double (*clock)() = nullptr;  // nullptr: time of this thread
};

// sparse: of changes only; the others read or code whole arrays.
std::vector<PeerCodec> sparse_peers();
std::vector<PeerCodec> whole_peers();
// zstd --patch-from, and xdelta3 where the program is installed (else why_none says so).
std::vector<PeerCodec> patch_peers(std::string& why_none);

// zstd as a layer: what it makes of bytes, by level.
Bytes zstd_of(const Bytes& bytes, int level);

}  // namespace sparcl::bench
