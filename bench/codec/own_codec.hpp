#pragma once
// This library's codec on one input: size, and the times of each part.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/codec/bench_data.hpp"
#include "bench/codec/bench_timing.hpp"
#include "kernels/kernel_set.hpp"

namespace sparcl::codec {
struct BlockMode;
}

namespace sparcl::bench {

struct OwnMode {
  const char* name;      // of the rows
  bool classes = false;  // EncodeOptions::allow_classes
  bool fewest = false;   // EncodeOptions::fewest_bytes
  const codec::BlockMode* block_mode = nullptr;
};

// The selectable modes: "sparcl" as in a broadcast, "sparcl classes" with exponent classes, "sparcl
// fewest" as in a file.
const std::vector<OwnMode>& own_modes();

struct OwnTimes {
  std::uint64_t encoded_bytes = 0;
  Samples read_one, read_two;  // the memory's limits, in the same rounds
  Samples diff;                // the kernel alone
  Samples encode;              // with diff and state hash
  Samples encode_plain;        // without the state hash; empty with classes, which need one
  Samples hash;  // the state hash's kernel alone, of all changes, which are in the cache as while a
                 // block is coded
  Samples check;      // the receiver's checks of stream and base, nothing written
  Samples apply;      // then decoding again, in place
  Samples one_pass;   // checks and writes block by block (Writing::kEarly)
  Samples unchecked;  // the same without a check of the base (Verify::kOff): stream checked,
                      // decoded, applied
};

// `held` has room for the input. Ends the program if the result is not the target.
OwnTimes measure_own(const Input& input, const OwnMode& mode, const kernels::KernelSet& kernels,
                     int rounds, std::byte* held);

std::vector<std::byte> encode_own(const Input& input, const OwnMode& mode,
                                  const kernels::KernelSet& kernels);

}  // namespace sparcl::bench
