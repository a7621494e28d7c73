#pragma once
// The memory of a process that other processes of its machine read where it lies: a file without a
// name, cut into pieces. A process has one, whatever number of communicators it has (NodeWindow is
// a communicator's view of it).

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/buffer.hpp"
#include "src/base/size_class.hpp"
#include "src/base/status.hpp"
#include "src/net/socket.hpp"

namespace sparcl::transport {

class NodeMemory : public std::enable_shared_from_this<NodeMemory> {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{128} << 20;
  static constexpr std::size_t kMaxPieces = 4096;
  using Token = std::array<std::uint64_t, 2>;

  // How another process finds it.
  struct Name {
    Token token{};
    std::uint64_t bytes = 0;
    std::int64_t pid = 0;
    std::int32_t descriptor = 0;
  };

  // Where bytes lie in it.
  struct Place {
    std::uint64_t piece = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  // It as one process sees it.
  class Mapping;

  // The one of this process, as long as anybody holds it. Unsupported where the system gives no
  // such memory, which it does as pages are used.
  static Result<std::shared_ptr<NodeMemory>> of_process();
  // of_process() returns another one from here on.
  static void forget(const std::shared_ptr<NodeMemory>& memory);
  // One more, as if of another process.
  static Result<std::shared_ptr<NodeMemory>> create(std::size_t max_bytes = kMaxBytes);
  // That of another process, which nobody here can write to; nullptr: it is closed to this one. All
  // communicators share the mapping.
  static std::shared_ptr<const Mapping> open(const Name& name);

  const Name& name() const { return name_; }

  // What the measurement at the start of a communicator takes leaves no trace: no other process has
  // given it to a network.
  enum class Use : std::uint8_t { kMeasurement, kCall };
  // Nothing where there is no room. The piece is the owner's until it is lent; then it stays as it
  // is until each reader has let go.
  std::optional<Buffer> take(std::size_t bytes, Use use);
  // For one reader, once: nothing if the bytes are not of this memory.
  std::optional<Place> lend(const Buffer& bytes);
  // What another process lent, until the last slice of it goes. Nothing if there is no such place.
  static std::optional<Buffer> borrow(const std::shared_ptr<const Mapping>& from,
                                      const Place& place);

  // Gives its pages back to the system, if all pieces are free, and no call ever took any.
  void return_pages();

 private:
  static constexpr std::size_t kLargestPiece = std::size_t{16} << 20;
  static constexpr std::size_t kShelves = size_classes(kLargestPiece);

  NodeMemory();
  std::optional<std::uint32_t> find(const SizeClass& size);
  std::optional<std::uint32_t> cut(const SizeClass& size);
  void give_back(std::uint32_t piece);
  bool is_lent(std::uint32_t piece) const;
  void shelve(std::uint32_t piece);
  void take_back();
  bool all_are_free() const;
  void forget_cuts();

  net::Socket door_;  // a descriptor, by which others open it
  std::shared_ptr<Mapping> own_;
  Name name_;

  std::mutex mutex_;                                       // of all below
  std::vector<std::size_t> bytes_of_, offset_of_;          // by piece; offsets ascend
  std::array<std::vector<std::uint32_t>, kShelves> free_;  // the warmest last
  std::vector<std::uint32_t> lent_;                        // that nobody here holds
  std::size_t used_ = 0;
  bool has_served_calls_ = false;
};

}  // namespace sparcl::transport
