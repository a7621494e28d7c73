#pragma once
// Blocks of an update that are written in turn, while the held arrays come into memory and leave it
// again: for states in files, which need not be in memory as a whole.

#include <cstdint>
#include <optional>
#include <span>

#include "src/codec/block_decoder.hpp"
#include "src/codec/block_entry.hpp"

namespace sparcl::codec {

// Takes each entry once its blocks are held, and writes it at once. A wrong base is found with the
// first chunk that tells; the owner compares the hashes of the whole base and of the whole result.
// After an error the arrays hold anything. For a decoder with Verify::kTouched.
class BlocksInOrder final : public BlocksElsewhere {
 public:
  BlocksInOrder(const BlockMap& map, std::span<std::byte* const> held,
                const kernels::KernelSet& kernels);

  // Blocks below `end` are held from now on, in arrays that begin here.
  void set_end(std::uint64_t end) { end_ = end; }
  void move_to(std::span<std::byte* const> held) { input_.held.assign(held.begin(), held.end()); }
  // Where the entry begins that waits for its blocks: all that are held before it are written.
  // Without one: `end`.
  std::uint64_t waiting_begin() const { return waiting_ ? waiting_->first : end_; }
  std::uint64_t waiting_end() const { return waiting_ ? waiting_->last : end_; }
  bool is_waiting() const { return waiting_.has_value(); }

  void add_table(const ClassTable& table) override { input_.tables.push_back(table); }
  void hash_fresh() override { decoder_.hash_fresh(); }
  Result<bool> check(const Staging& staging, const BlockEntry& entry) override;
  Result<bool> flush(const Staging&) override { return true; }
  BlockFindings take_findings() override { return decoder_.take_findings(); }
  Status leave_to_host() override { return {}; }
  Status apply(const Staging&, std::span<const BlockEntry>, bool) override { return {}; }

 private:
  DecodeInput input_;
  BlockDecoder decoder_;
  std::uint64_t end_ = 0;
  std::optional<BlockRange> waiting_{};
};

}  // namespace sparcl::codec
