#pragma once
// Formats of other projects on the same input, written from their published layouts, for
// comparison. They are as good as these layouts can be, because positions are found by this
// library's own diff.

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
  std::uint64_t max_bytes = ~std::uint64_t{0};  // of an array: larger arrays take too long
  int max_rounds = 1000;
  double (*clock)() = nullptr;  // nullptr: time of this thread
};

// sparse: of changes only; the other codecs read or code whole arrays.
std::vector<PeerCodec> sparse_peers();
std::vector<PeerCodec> whole_peers();
// zstd --patch-from, and xdelta3 if the program is installed (else why_none says why not).
std::vector<PeerCodec> patch_peers(std::string& why_none);

// zstd as a layer: the compressed bytes at a level.
Bytes zstd_of(const Bytes& bytes, int level);

}  // namespace sparcl::bench
