#pragma once
// Memory of a rank that the other ranks of its machine read in place. A message then holds only the
// location of its bytes, and no rank copies them. The transport still carries every message, with
// its order, deadlines and failures.
//
// The memory is the process's (NodeMemory); a window knows which ranks of one communicator read it.
// The owner may write a piece until it is lent. The piece then stays unchanged until each reader
// has released it. Readers cannot write into it.

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

  // beyond: gives buffers if the memory has no room. machine: only windows of the same name are
  // opened.
  NodeWindow(int ranks, std::shared_ptr<NodeMemory> memory, std::shared_ptr<BufferSource> beyond,
             std::string_view machine = {});

  // The bytes that another rank needs to open this window.
  const Bytes& card() const { return card_; }
  // Opens the window of `rank`. It may be on another machine, or closed to this process (another
  // container).
  enum class Opening { kOpen, kElsewhere, kClosed };
  Opening open(int rank, std::span<const std::byte> card);

  // Set once both ranks have opened each other's window.
  void set_shared_with(int rank) { shared_with_[static_cast<std::size_t>(rank)] = true; }
  bool is_shared_with(int rank) const { return shared_with_[static_cast<std::size_t>(rank)]; }

  // Buffers that are taken from now on are for calls. Returns the memory of the measurement to the
  // system.
  void end_measurement();
  // A reader may have ended without a release: later communicators use other memory.
  void give_memory_up() { NodeMemory::forget(memory_); }

  Buffer take(std::size_t bytes) override;

  // For one reader; call it once a reader. Nothing if the bytes are not this window's.
  std::optional<Place> lend(const Buffer& bytes) { return memory_->lend(bytes); }
  // Bytes that `rank` has lent to this rank, until their last slice is released. Nothing if its
  // window has no such location.
  std::optional<Buffer> borrow(int rank, const Place& place) const {
    return NodeMemory::borrow(peers_[static_cast<std::size_t>(rank)], place);
  }

 private:
  std::shared_ptr<NodeMemory> memory_;
  std::shared_ptr<BufferSource> beyond_;
  std::vector<std::shared_ptr<const NodeMemory::Mapping>> peers_;  // by rank; nullptr: not opened
  std::vector<bool> shared_with_;
  std::string own_machine_;  // the same for all processes that can share memory
  NodeMemory::Use use_ = NodeMemory::Use::kMeasurement;
  Bytes card_;
};

}  // namespace sparcl::transport
