#pragma once
// A copy of a state's arrays: what the ranks have confirmed to hold. Large, read from end to end at
// each update: so on huge pages where they exist.

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

  // Copies all arrays, those that are nullptr from the source; keeps the old memory where it fits.
  // An error: what it holds is nothing.
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
