#pragma once
// A copy of a state's arrays, as the ranks have confirmed to hold them. It is large, and each
// update reads all of it, so it uses huge pages if available.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::model {

class Snapshot {
 public:
  bool empty() const { return arrays_.empty(); }
  void clear() {
    arrays_.clear();
    storage_.reset();
  }

  // Memory for all arrays, with any content. Keeps the old memory.
  Status make(const codec::BlockMap& map);
  // Copies all arrays, arrays that are nullptr from the source. Keeps the old memory if it fits.
  // After an error the snapshot is empty.
  Status take(const codec::BlockMap& map, std::span<std::byte* const> arrays,
              const codec::ArraySource* source = nullptr);

  std::span<std::byte* const> arrays() const { return arrays_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte[], Free> storage_;
  std::vector<std::byte*> arrays_;
};

}  // namespace sparcl::model
