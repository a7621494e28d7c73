#pragma once
// The memory of a process that other processes of its machine read in place: a file without a name,
// cut into pieces. A process has one, however many communicators it has. NodeWindow is a
// communicator's view of it.

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

  // Names the memory for other processes.
  struct Name {
    Token token{};
    std::uint64_t bytes = 0;
    std::int64_t pid = 0;
    std::int32_t descriptor = 0;
  };

  // The location of bytes in it.
  struct Place {
    std::uint64_t piece = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  // The memory as one process maps it.
  class Mapping;

  // The memory of this process, while any communicator holds it. Unsupported if the system gives no
  // memory that it allocates as pages are used.
  static Result<std::shared_ptr<NodeMemory>> of_process();
  // of_process() returns a new memory from now on.
  static void forget(const std::shared_ptr<NodeMemory>& memory);
  // A further memory, as if of another process.
  static Result<std::shared_ptr<NodeMemory>> create(std::size_t max_bytes = kMaxBytes);
  // The memory of another process, read-only here; nullptr: this process may not open it. All
  // communicators share the mapping.
  static std::shared_ptr<const Mapping> open(const Name& name);

  const Name& name() const { return name_; }

  // Memory for the measurement at the start of a communicator is returned to the system: no other
  // process has given it to a network.
  enum class Use : std::uint8_t { kMeasurement, kCall };
  // Nothing if there is no room. The caller owns the piece until it is lent. Its bytes then stay
  // unchanged until each reader has released it.
  std::optional<Buffer> take(std::size_t bytes, Use use);
  // For one reader; call it once a reader. Nothing if the bytes are not of this memory.
  std::optional<Place> lend(const Buffer& bytes);
  // Bytes that another process lent, until their last slice is released. Nothing if there is no
  // such location.
  static std::optional<Buffer> borrow(const std::shared_ptr<const Mapping>& from,
                                      const Place& place);

  // Returns its pages to the system if all pieces are free, and no call ever took one.
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

  net::Socket door_;  // a descriptor, by which other processes open it
  std::shared_ptr<Mapping> own_;
  Name name_;

  std::mutex mutex_;                                       // of all below
  std::vector<std::size_t> bytes_of_, offset_of_;          // by piece; offsets ascend
  std::array<std::vector<std::uint32_t>, kShelves> free_;  // the most recently used last
  std::vector<std::uint32_t> lent_;                        // lent, and not held in this process
  std::size_t used_ = 0;
  bool has_served_calls_ = false;
};

}  // namespace sparcl::transport
