#pragma once
// Memory of a rank that the other ranks on its machine read where it lies: a message then says only
// where its bytes are, and nobody copies them. A capability beside the messages of a transport,
// which still carry every word: order, deadlines and deaths are theirs.
//
// The memory is the process's (NodeMemory); a window knows which ranks of one communicator read it.
// A piece is the owner's until it is lent; then it stays as it is until each reader has let go.
// Readers cannot write into it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/buffer_source.hpp"
#include "src/base/status.hpp"
#include "src/transport/node_memory.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

class NodeWindow final : public BufferSource {
 public:
  using Place = NodeMemory::Place;

  // What the memory has no room for comes from `beyond`. machine: only windows of the same name are
  // opened.
  NodeWindow(int ranks, std::shared_ptr<NodeMemory> memory, std::shared_ptr<BufferSource> beyond,
             std::string_view machine = {});

  // What another rank needs to open this window.
  const Bytes& card() const { return card_; }
  // Opens the window of `rank`: it may be elsewhere, or closed to this process (a container of its
  // own).
  enum class Opening { kOpen, kElsewhere, kClosed };
  Opening open(int rank, std::span<const std::byte> card);

  // Between ranks that have both opened the other's.
  void set_shared_with(int rank) { shared_with_[static_cast<std::size_t>(rank)] = true; }
  bool is_shared_with(int rank) const { return shared_with_[static_cast<std::size_t>(rank)]; }

  // What is taken from here on is for calls. Gives the memory that the measurement took back to the
  // system.
  void end_measurement();
  // A reader may have ended without letting go: communicators made from here on use other memory.
  void give_memory_up() { NodeMemory::forget(memory_); }

  Buffer take(std::size_t bytes) override;

  // For one reader, once: nothing if the bytes are not this window's.
  std::optional<Place> lend(const Buffer& bytes) { return memory_->lend(bytes); }
  // What `rank` has lent to this rank, until the last slice of it goes. Nothing if its window has
  // no such place.
  std::optional<Buffer> borrow(int rank, const Place& place) const {
    return NodeMemory::borrow(peers_[static_cast<std::size_t>(rank)], place);
  }

 private:
  std::shared_ptr<NodeMemory> memory_;
  std::shared_ptr<BufferSource> beyond_;
  std::vector<std::shared_ptr<const NodeMemory::Mapping>> peers_;  // by rank; nullptr: not opened
  std::vector<bool> shared_with_;
  std::string own_machine_;  // what processes that can share memory say alike
  NodeMemory::Use use_ = NodeMemory::Use::kMeasurement;
  Bytes card_;
};

}  // namespace sparcl::transport
