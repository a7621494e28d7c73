#pragma once
// The target of a delta, made while it is written: pieces of the base are read, changed and given
// away, so that neither state is in memory as a whole.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/codec/blocks_in_order.hpp"
#include "src/codec/update.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/zero_memory.hpp"

namespace sparcl::model {

class StreamedTarget final : public TensorFeed {
 public:
  // Of a delta that keeps the list of tensors. All outlive it.
  static Result<std::unique_ptr<StreamedTarget>> create(const Checkpoint& base, const Delta& delta,
                                                        const DeltaSummary& summary);

  // Where the tensors begin. Bytes are there from need() on until they are released, and may move
  // in need().
  std::span<const std::byte* const> tensors() const { return read_; }
  Status need(std::size_t tensor, std::uint64_t end) override;
  void release(std::size_t tensor, std::uint64_t end) override;
  // Every byte was read and changed. WrongBase, Corrupt: the base or the result is another state
  // than the delta's.
  Status finish() override;

  std::uint64_t changed() const { return decoder_.changed(); }
  const codec::BlockMap& map() const { return map_; }

 private:
  StreamedTarget(const Checkpoint& base, const Delta& delta, const DeltaSummary& summary,
                 const kernels::KernelSet& kernels);
  Status load(std::uint64_t end);
  Status make_room(std::uint64_t end);
  void place_tensors();
  Status decode();
  Status load_and_decode();
  codec::ArrayInput arrays() const { return {read_, nullptr}; }

  const Checkpoint& base_;
  const Delta& delta_;
  const DeltaSummary& summary_;
  const kernels::KernelSet& kernels_;
  codec::BlockMap map_;
  // Of all tensors, end to end, the bytes [begin_, loaded_bytes_) are in the buffer.
  std::vector<std::uint64_t> offsets_;  // of tensors
  std::optional<ZeroMemory> buffer_;
  std::uint64_t buffer_bytes_ = 0, begin_ = 0, loaded_bytes_ = 0, written_bytes_ = 0;
  std::vector<std::byte*> held_;        // where tensors would begin if all of them were there
  std::vector<const std::byte*> read_;  // the same
  codec::BlocksInOrder blocks_;
  codec::UpdateDecoder decoder_;
  std::vector<codec::Piece> pieces_;
  std::uint64_t loaded_ = 0, final_ = 0;  // blocks below were read; are the target's
  Hash128 base_hash_, target_hash_;
};

}  // namespace sparcl::model
