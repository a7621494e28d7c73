#pragma once
// Writes encoded bytes to a Staging, directly if they fit in one piece, otherwise through a scratch
// buffer.

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/staging.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

class StagingSink final : public ByteSink {
 public:
  explicit StagingSink(Staging& staging, std::uint64_t written_bytes = 0)
      : staging_(staging), written_bytes_(written_bytes) {}

  std::uint64_t written_bytes() const { return written_bytes_; }

  std::byte* reserve(std::size_t bytes) override {
    const std::size_t left =
        Staging::kSegmentBytes - static_cast<std::size_t>(written_bytes_ % Staging::kSegmentBytes);
    in_place_ = bytes <= left;
    if (!in_place_) {
      if (scratch_.size() < bytes) scratch_.resize(bytes);
      return scratch_.data();
    }
    staging_.reserve(written_bytes_ + bytes);
    return staging_.slice(written_bytes_, bytes).data();
  }

  void commit(std::size_t used) override {
    if (!in_place_)
      staging_.write(written_bytes_, std::span<const std::byte>(scratch_).first(used));
    written_bytes_ += used;
  }

 private:
  Staging& staging_;
  std::uint64_t written_bytes_;
  std::vector<std::byte> scratch_;
  bool in_place_ = true;
};

}  // namespace sparcl::codec
