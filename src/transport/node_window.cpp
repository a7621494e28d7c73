#include "src/transport/node_window.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/base/memory_file.hpp"
#include "src/base/size_class.hpp"
#include "src/transport/peer_card.hpp"

namespace sparcl {
namespace {

constexpr std::size_t kMostPieces = 4096;
constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kPageBytes = 4096;  // pieces begin at one
constexpr std::size_t kLargestPiece = std::size_t{16} << 20;
constexpr std::size_t kShelves = size_classes(kLargestPiece);
using Token = std::array<std::uint64_t, 2>;

// In front of a window, where its readers may write.
struct alignas(kLineBytes) LoanCount {
  std::atomic<std::uint32_t> readers;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(LoanCount) == kLineBytes);
struct Front {
  alignas(kLineBytes) Token token;  // whose window it is
  std::array<LoanCount, kMostPieces> loans;
};
constexpr std::size_t kFrontBytes = (sizeof(Front) + kPageBytes - 1) / kPageBytes * kPageBytes;

struct Card {
  Token token{};
  std::uint64_t bytes = 0;
  std::int64_t pid = 0;
  std::int32_t descriptor = 0;
  std::string memory;
};

Bytes write_card(const Card& card) {
  Bytes out(36 + card.memory.size());
  store_le(out.data(), card.token[0]);
  store_le(out.data() + 8, card.token[1]);
  store_le(out.data() + 16, card.bytes);
  store_le(out.data() + 24, card.pid);
  store_le(out.data() + 32, card.descriptor);
  std::memcpy(out.data() + 36, card.memory.data(), card.memory.size());
  return out;
}

std::optional<Card> read_card(std::span<const std::byte> bytes) {
  Card card;
  ByteReader reader(bytes);
  if (!reader.read(card.token[0]) || !reader.read(card.token[1]) || !reader.read(card.bytes) || !reader.read(card.pid) ||
      !reader.read(card.descriptor))
    return std::nullopt;
  std::span<const std::byte> memory;
  if (!reader.read_bytes(reader.remaining(), memory)) return std::nullopt;
  card.memory.assign(reinterpret_cast<const char*>(memory.data()), memory.size());
  return card;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  int number() const { return number_; }

 private:
  int number_;
};

Token random_token() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  return {word(), word()};
}

}  // namespace

// A window as one process sees it.
struct NodeWindow::Memory {
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (front != nullptr) ::munmap(front, kFrontBytes);
    if (data != nullptr) ::munmap(data, bytes);
  }

  bool map(int descriptor, std::size_t data_bytes, int data_protection) {
    bytes = data_bytes;
    void* const first = ::mmap(nullptr, kFrontBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (first == MAP_FAILED) return false;
    front = static_cast<Front*>(first);
    void* const rest = ::mmap(nullptr, data_bytes, data_protection, MAP_SHARED, descriptor, kFrontBytes);
    if (rest == MAP_FAILED) return false;
    data = static_cast<std::byte*>(rest);
    (void)madvise(data, bytes, MADV_HUGEPAGE);  // a wish
    return true;
  }

  Front* front = nullptr;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// The own window, cut into pieces. They outlive the comm as long as somebody here holds one.
class NodeWindow::Pieces {
 public:
  explicit Pieces(int descriptor) : door(descriptor) {
    bytes_of_.reserve(kMostPieces);
    offset_of_.reserve(kMostPieces);
    lent_.reserve(kMostPieces);
    for (auto& shelf : free_) shelf.reserve(kMostPieces);  // so that giving back needs no memory
  }

  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t take(const SizeClass& size) {
    const std::lock_guard lock(mutex_);
    take_back();
    // Larger ones, too: sizes change from call to call.
    for (std::size_t shelf = size.number; shelf < kShelves && shelf < size.number + kLarger; ++shelf) {
      if (free_[shelf].empty()) continue;
      const std::uint32_t piece = free_[shelf].back();
      free_[shelf].pop_back();
      return piece;
    }
    const std::size_t bytes = (size.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (bytes_of_.size() == kMostPieces || memory.bytes - used_ < bytes) return kNone;
    const auto piece = static_cast<std::uint32_t>(bytes_of_.size());
    bytes_of_.push_back(size.bytes);
    offset_of_.push_back(used_);
    used_ += bytes;
    return piece;
  }

  void give_back(std::uint32_t piece) {
    const std::lock_guard lock(mutex_);
    is_lent(piece) ? lent_.push_back(piece) : shelve(piece);
  }

  std::byte* data_of(std::uint32_t piece) const { return memory.data + offset_of_[piece]; }

  // The piece in which these bytes lie.
  std::optional<std::uint32_t> piece_of(const std::byte* at) {
    const auto offset = static_cast<std::size_t>(at - memory.data);
    const std::lock_guard lock(mutex_);
    if (std::less<>()(at, memory.data) || offset >= used_) return std::nullopt;
    const auto after = std::upper_bound(offset_of_.begin(), offset_of_.end(), offset);
    return static_cast<std::uint32_t>(after - offset_of_.begin()) - 1;
  }

  Memory memory;
  Descriptor door;

 private:
  static constexpr std::size_t kLarger = 9;  // sizes: up to four times as large

  bool is_lent(std::uint32_t piece) const { return memory.front->loans[piece].readers.load(std::memory_order_acquire) != 0; }
  void shelve(std::uint32_t piece) { free_[size_class(bytes_of_[piece]).number].push_back(piece); }
  void take_back() {
    std::erase_if(lent_, [this](std::uint32_t piece) {
      if (is_lent(piece)) return false;
      shelve(piece);
      return true;
    });
  }

  std::mutex mutex_;
  std::vector<std::size_t> bytes_of_, offset_of_;          // by piece; offsets ascend
  std::array<std::vector<std::uint32_t>, kShelves> free_;  // the warmest last
  std::vector<std::uint32_t> lent_;                        // that nobody here holds
  std::size_t used_ = 0;
};

NodeWindow::NodeWindow(int ranks, std::shared_ptr<BufferSource> beyond)
    : beyond_(std::move(beyond)), peers_(static_cast<std::size_t>(ranks)), shared_with_(static_cast<std::size_t>(ranks)) {}

NodeWindow::~NodeWindow() = default;

Result<std::unique_ptr<NodeWindow>> NodeWindow::create(int ranks, std::shared_ptr<BufferSource> beyond, std::size_t most_bytes,
                                                       std::string_view machine) {
  const auto failed = [](const char* what) {
    return Status(Code::kUnsupported, fmt::format("no shared window: {}: {}", what, std::strerror(errno)));
  };
  const std::uint64_t all = kFrontBytes + most_bytes;
  if (!may_make_file_of(all)) return Status(Code::kUnsupported, "no shared window: files may not be so large (ulimit -f)");
  std::unique_ptr<NodeWindow> window(new NodeWindow(ranks, std::move(beyond)));
  window->pieces_ = std::make_shared<Pieces>(::memfd_create("sparcl", MFD_CLOEXEC));
  const int descriptor = window->pieces_->door.number();
  if (descriptor < 0) return failed("memfd_create");
  Memory& memory = window->pieces_->memory;
  if (::ftruncate(descriptor, static_cast<off_t>(all)) != 0) return failed("ftruncate");
  if (!memory.map(descriptor, most_bytes, PROT_READ | PROT_WRITE)) return failed("mmap");
  memory.front->token = random_token();
  const PeerCard own = PeerCard::own();
  window->own_memory_ = fmt::format("{}{}", own.memory, machine);
  window->card_ = write_card({memory.front->token, most_bytes, own.pid, descriptor, window->own_memory_});
  return window;
}

NodeWindow::Opening NodeWindow::open(int rank, std::span<const std::byte> bytes) {
  const std::optional<Card> card = read_card(bytes);
  if (!card || card->memory != own_memory_) return Opening::kElsewhere;
  if (card->bytes == 0 || card->bytes > kMostBytes) return Opening::kClosed;
  const std::string path = fmt::format("/proc/{}/fd/{}", card->pid, card->descriptor);
  const Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const off_t size = descriptor.number() < 0 ? -1 : ::lseek(descriptor.number(), 0, SEEK_END);
  if (size < 0 || static_cast<std::uint64_t>(size) != kFrontBytes + card->bytes) return Opening::kClosed;
  auto memory = std::make_shared<Memory>();
  if (!memory->map(descriptor.number(), card->bytes, PROT_READ) || memory->front->token != card->token) return Opening::kClosed;
  peers_[static_cast<std::size_t>(rank)] = std::move(memory);
  return Opening::kOpen;
}

void NodeWindow::close_door() { pieces_->door.close(); }

Buffer NodeWindow::take(std::size_t bytes) {
  if (bytes <= kLeastPieceBytes || bytes > kLargestPiece) return beyond_->take(bytes);
  const std::uint32_t piece = pieces_->take(size_class(bytes));
  if (piece == Pieces::kNone) return beyond_->take(bytes);
  std::shared_ptr<std::byte[]> shared(pieces_->data_of(piece), [pieces = pieces_, piece](std::byte*) { pieces->give_back(piece); });
  return Buffer(std::move(shared), 0, bytes);
}

std::optional<NodeWindow::Place> NodeWindow::lend(const Buffer& bytes) {
  const std::optional<std::uint32_t> piece = pieces_->piece_of(bytes.data());
  if (!piece) return std::nullopt;
  pieces_->memory.front->loans[*piece].readers.fetch_add(1, std::memory_order_relaxed);
  return Place{*piece, static_cast<std::uint64_t>(bytes.data() - pieces_->memory.data), bytes.size()};
}

std::optional<Buffer> NodeWindow::borrow(int rank, const Place& place) const {
  const std::shared_ptr<Memory>& memory = peers_[static_cast<std::size_t>(rank)];
  if (memory == nullptr || place.piece >= kMostPieces || place.offset > memory->bytes || place.bytes > memory->bytes - place.offset)
    return std::nullopt;
  std::shared_ptr<std::byte[]> shared(memory->data + place.offset, [memory, piece = place.piece](std::byte*) {
    memory->front->loans[piece].readers.fetch_sub(1, std::memory_order_release);
  });
  return Buffer(std::move(shared), 0, place.bytes);
}

}  // namespace sparcl
