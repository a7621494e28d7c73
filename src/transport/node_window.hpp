#pragma once
// Memory of a rank that the other ranks on its machine read where it lies: a message then says only where its bytes are, and nobody
// copies them. A capability beside the messages of a transport, which still carry every word: order, deadlines and deaths are
// theirs.
//
// A piece is the owner's until it is lent; then it stays as it is until each reader has let go. Readers cannot write into it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/buffer_source.hpp"
#include "src/base/status.hpp"
#include "src/transport/transport.hpp"

namespace sparcl {

class NodeWindow final : public BufferSource {
 public:
  // Where bytes lie in a window.
  struct Place {
    std::uint64_t piece = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

  // An error where the system gives no such memory: then messages carry all. What the window has no room for comes
  // from `beyond`. Memory is taken from the system as it is used. machine: only windows of the same name are opened.
  static Result<std::unique_ptr<NodeWindow>> create(int ranks, std::shared_ptr<BufferSource> beyond,
                                                    std::size_t most_bytes = kMostBytes, std::string_view machine = {});
  ~NodeWindow() override;

  // What another rank needs to open this window.
  const Bytes& card() const { return card_; }
  // Opens the window of `rank`: it may be elsewhere, or closed to this process (a container of its own).
  enum class Opening { kOpen, kElsewhere, kClosed };
  Opening open(int rank, std::span<const std::byte> card);
  // All who could have opened this window: nobody else comes.
  void close_door();

  // Between ranks that have both opened the other's.
  void set_shared_with(int rank) { shared_with_[static_cast<std::size_t>(rank)] = true; }
  bool is_shared_with(int rank) const { return shared_with_[static_cast<std::size_t>(rank)]; }

  Buffer take(std::size_t bytes) override;

  // For one reader, once: nothing if the bytes are not this window's.
  std::optional<Place> lend(const Buffer& bytes);
  // What `rank` has lent to this rank, until the last slice of it goes. Nothing if its window has no such place.
  std::optional<Buffer> borrow(int rank, const Place& place) const;

 private:
  struct Memory;
  class Pieces;

  NodeWindow(int ranks, std::shared_ptr<BufferSource> beyond);

  std::shared_ptr<BufferSource> beyond_;
  std::shared_ptr<Pieces> pieces_;
  std::vector<std::shared_ptr<Memory>> peers_;  // by rank; nullptr: not opened
  std::vector<bool> shared_with_;
  std::string own_memory_;  // what processes that can share memory say alike
  Bytes card_;
};

}  // namespace sparcl
