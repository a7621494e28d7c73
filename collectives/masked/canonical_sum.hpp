#pragma once
// Canonical masked sums between the ranks' GPUs, in a stream's order, with the bits of the host
// path. All sizes depend on the mask alone, and are known before anything runs.

#include <cstdint>
#include <memory>

#include "collectives/masked/masked.hpp"
#include "src/comm/device/device_calls.hpp"

namespace sparcl::collectives::masked {

// Whether the combining kernel supports so many rows.
bool takes_canonical(int ranks);

class CanonicalSum {
 public:
  // forced: a row of dense_table(), counted from 1, whose method is used: direct, owner; 0: the
  // better one. The same on all ranks.
  CanonicalSum(DeviceCalls& calls, const MaskedCall& call, int rank, int ranks, std::uint8_t forced)
      : calls_(calls),
        call_(call),
        rank_(static_cast<std::uint64_t>(rank)),
        ranks_(static_cast<std::uint64_t>(ranks)),
        forced_(forced) {}

  // Allocates memory, before anything is enqueued or agreed on. A captured call gets memory that
  // stays for its graph.
  Status prepare();
  Status enqueue();

 private:
  std::byte* at(std::size_t offset) const {
    return static_cast<std::byte*>(memory_.bytes->data()) + offset;
  }
  std::byte* packed() const;  // this rank's values, and then the sums
  Status enqueue_steps() const;
  // sum: the whole sum at the end; it may be the source.
  Status sum_all(const std::byte* source, std::byte* sum) const;
  Status sum_pieces(const std::byte* source, std::byte* sum) const;
  Status combine(const std::byte* rows, std::uint64_t bytes, std::byte* result) const;

  DeviceCalls& calls_;
  const MaskedCall& call_;
  std::uint64_t rank_, ranks_;
  std::uint8_t forced_;
  std::shared_ptr<const sparse::DeviceMask> mask_;
  DeviceCalls::Memory memory_;
  std::uint64_t bytes_ = 0;      // of the mask's values
  bool gathers_all_ = false;     // all values of all ranks
  std::uint64_t row_bytes_ = 0;  // from rank to rank: all values, or a piece of them
  std::size_t rows_ = 0, packed_ = 0;
  bool has_packed_ = false;
};

}  // namespace sparcl::collectives::masked
