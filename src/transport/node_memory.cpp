#include "src/transport/node_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "src/base/error_text.hpp"
#include "src/base/memory_file.hpp"
#include "src/base/process_own.hpp"

namespace sparcl::transport {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kPageBytes = 4096;  // pieces begin at one

// Before the memory, in pages that readers may write.
struct alignas(kLineBytes) LoanCount {
  std::atomic<std::uint32_t> readers;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(LoanCount) == kLineBytes);
struct Front {
  alignas(kLineBytes) NodeMemory::Token token;
  std::array<LoanCount, NodeMemory::kMaxPieces> loans;
};
constexpr std::size_t kFrontBytes = (sizeof(Front) + kPageBytes - 1) / kPageBytes * kPageBytes;

NodeMemory::Token random_token() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  return {word(), word()};
}

}  // namespace

class NodeMemory::Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (front != nullptr) ::munmap(front, kFrontBytes);
    if (data != nullptr) ::munmap(data, bytes);
  }

  bool map(int descriptor, std::size_t data_bytes, int data_protection) {
    bytes = data_bytes;
    void* const first =
        ::mmap(nullptr, kFrontBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (first == MAP_FAILED) return false;
    front = static_cast<Front*>(first);
    void* const rest =
        ::mmap(nullptr, data_bytes, data_protection, MAP_SHARED, descriptor, kFrontBytes);
    if (rest == MAP_FAILED) return false;
    data = static_cast<std::byte*>(rest);
    (void)madvise(data, bytes, MADV_HUGEPAGE);  // a hint
    return true;
  }

  Front* front = nullptr;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

namespace {

using SharedMapping = std::shared_ptr<const NodeMemory::Mapping>;

// Mappings of other processes, by their tokens.
struct OpenMappings {
  std::mutex mutex;
  std::map<NodeMemory::Token, std::weak_ptr<const NodeMemory::Mapping>> by_token;
};

SharedMapping open_anew(const NodeMemory::Name& name) {
  const std::string path = fmt::format("/proc/{}/fd/{}", name.pid, name.descriptor);
  const net::Socket descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const off_t size = descriptor.is_open() ? ::lseek(descriptor.fd(), 0, SEEK_END) : -1;
  if (size < 0 || static_cast<std::uint64_t>(size) != kFrontBytes + name.bytes) return nullptr;
  auto mapping = std::make_shared<NodeMemory::Mapping>();
  if (!mapping->map(descriptor.fd(), name.bytes, PROT_READ) || mapping->front->token != name.token)
    return nullptr;
  return mapping;
}

}  // namespace

// Reserves room for all pieces, so that a return needs no memory.
NodeMemory::NodeMemory() : own_(std::make_shared<Mapping>()) {
  bytes_of_.reserve(kMaxPieces);
  offset_of_.reserve(kMaxPieces);
  lent_.reserve(kMaxPieces);
  for (auto& shelf : free_) shelf.reserve(kMaxPieces);
}

Result<std::shared_ptr<NodeMemory>> NodeMemory::of_process() {
  return shared_by_process<NodeMemory>([] { return create(); });
}

void NodeMemory::forget(const std::shared_ptr<NodeMemory>& memory) { unshare_by_process(memory); }

Result<std::shared_ptr<NodeMemory>> NodeMemory::create(std::size_t max_bytes) {
  const auto failed = [](const char* what) {
    return Status(Code::kUnsupported,
                  fmt::format("no shared window: {}: {}", what, error_text(errno)));
  };
  const std::uint64_t all = kFrontBytes + max_bytes;
  if (!may_make_file_of(all))
    return Status(Code::kUnsupported, "no shared window: files may not be so large (ulimit -f)");
  std::shared_ptr<NodeMemory> made(new NodeMemory);
  made->door_ = net::Socket(::memfd_create("sparcl", MFD_CLOEXEC));
  if (!made->door_.is_open()) return failed("memfd_create");
  if (::ftruncate(made->door_.fd(), static_cast<off_t>(all)) != 0) return failed("ftruncate");
  if (!made->own_->map(made->door_.fd(), max_bytes, PROT_READ | PROT_WRITE)) return failed("mmap");
  made->name_ = {random_token(), max_bytes, ::getpid(), made->door_.fd()};
  made->own_->front->token = made->name_.token;
  return made;
}

std::shared_ptr<const NodeMemory::Mapping> NodeMemory::open(const Name& name) {
  if (name.bytes == 0 || name.bytes > kMaxBytes) return nullptr;
  auto& open = process_own<OpenMappings>();
  const std::lock_guard lock(open.mutex);
  std::erase_if(open.by_token, [](const auto& each) { return each.second.expired(); });
  if (const auto found = open.by_token.find(name.token); found != open.by_token.end()) {
    if (SharedMapping known = found->second.lock(); known != nullptr && known->bytes == name.bytes)
      return known;
  }
  SharedMapping made = open_anew(name);
  if (made != nullptr) open.by_token[name.token] = made;
  return made;
}

std::optional<Buffer> NodeMemory::take(std::size_t bytes, Use use) {
  if (bytes > kLargestPiece) return std::nullopt;
  std::optional<std::uint32_t> piece;
  {
    const std::lock_guard lock(mutex_);
    has_served_calls_ |= use == Use::kCall;
    piece = find(size_class(bytes));
  }
  if (!piece) return std::nullopt;
  std::shared_ptr<std::byte[]> shared(
      own_->data + offset_of_[*piece],
      [memory = shared_from_this(), piece = *piece](std::byte*) { memory->give_back(piece); });
  return Buffer(std::move(shared), 0, bytes);
}

std::optional<std::uint32_t> NodeMemory::find(const SizeClass& size) {
  constexpr std::size_t kLarger = 9;  // sizes: up to four times as large
  take_back();
  // Larger pieces too, because sizes change from call to call.
  for (std::size_t shelf = size.number; shelf < kShelves && shelf < size.number + kLarger;
       ++shelf) {
    if (free_[shelf].empty()) continue;
    const std::uint32_t piece = free_[shelf].back();
    free_[shelf].pop_back();
    return piece;
  }
  if (std::optional<std::uint32_t> piece = cut(size)) return piece;
  if (!all_are_free()) return std::nullopt;
  forget_cuts();
  return cut(size);
}

std::optional<std::uint32_t> NodeMemory::cut(const SizeClass& size) {
  const std::size_t bytes = (size.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (bytes_of_.size() == kMaxPieces || own_->bytes - used_ < bytes) return std::nullopt;
  const auto piece = static_cast<std::uint32_t>(bytes_of_.size());
  bytes_of_.push_back(size.bytes);
  offset_of_.push_back(used_);
  used_ += bytes;
  return piece;
}

void NodeMemory::give_back(std::uint32_t piece) {
  const std::lock_guard lock(mutex_);
  is_lent(piece) ? lent_.push_back(piece) : shelve(piece);
}

bool NodeMemory::is_lent(std::uint32_t piece) const {
  return own_->front->loans[piece].readers.load(std::memory_order_acquire) != 0;
}

void NodeMemory::shelve(std::uint32_t piece) {
  free_[size_class(bytes_of_[piece]).number].push_back(piece);
}

void NodeMemory::take_back() {
  std::erase_if(lent_, [this](std::uint32_t piece) {
    if (is_lent(piece)) return false;
    shelve(piece);
    return true;
  });
}

bool NodeMemory::all_are_free() const {
  std::size_t free = 0;
  for (const auto& shelf : free_) free += shelf.size();
  return free == bytes_of_.size();
}

void NodeMemory::forget_cuts() {
  bytes_of_.clear();
  offset_of_.clear();
  for (auto& shelf : free_) shelf.clear();
  used_ = 0;
}

std::optional<NodeMemory::Place> NodeMemory::lend(const Buffer& bytes) {
  const std::byte* const at = bytes.data();
  const auto offset = static_cast<std::size_t>(at - own_->data);
  std::uint32_t piece = 0;
  {
    const std::lock_guard lock(mutex_);
    if (std::less<>()(at, own_->data) || offset >= used_) return std::nullopt;
    piece =
        static_cast<std::uint32_t>(std::upper_bound(offset_of_.begin(), offset_of_.end(), offset) -
                                   offset_of_.begin()) -
        1;
  }
  own_->front->loans[piece].readers.fetch_add(1, std::memory_order_relaxed);
  return Place{piece, offset, bytes.size()};
}

std::optional<Buffer> NodeMemory::borrow(const std::shared_ptr<const Mapping>& from,
                                         const Place& place) {
  if (from == nullptr || place.piece >= kMaxPieces || place.offset > from->bytes ||
      place.bytes > from->bytes - place.offset)
    return std::nullopt;
  std::shared_ptr<std::byte[]> shared(
      from->data + place.offset, [from, piece = place.piece](std::byte*) {
        from->front->loans[piece].readers.fetch_sub(1, std::memory_order_release);
      });
  return Buffer(std::move(shared), 0, place.bytes);
}

// A reader's network card may know the pages of bytes that a call has sent. These pages must stay.
void NodeMemory::return_pages() {
  const std::lock_guard lock(mutex_);
  take_back();
  if (has_served_calls_ || !all_are_free()) return;
  (void)madvise(own_->data, used_, MADV_REMOVE);  // a hint
  forget_cuts();
}

}  // namespace sparcl::transport
