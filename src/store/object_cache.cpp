#include "src/store/object_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "src/base/files/file_reader.hpp"
#include "src/base/files/file_writing.hpp"
#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/base/shown_text.hpp"
#include "src/store/stored_object.hpp"
#include "src/trust/hex.hpp"

namespace sparcl::store {
namespace {

namespace fs = std::filesystem;
using Digests = std::vector<model::Digest256>;

// Heuristics. Smaller objects are one request anyway. A reader whose neighbour fetches nothing for
// so long fetches by itself.
constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10;
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kLook{20};

constexpr std::size_t kNameLength = 2 * sizeof(model::Digest256);
constexpr const char* kLeaves = ".leaves";
// A link, which others may have made in a folder that all can write, could lead to any file.
constexpr int kOpening = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;

bool is_name(std::string_view name) {
  return name.size() == kNameLength &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::uint64_t size_of(int fd) {
  struct stat about;
  return ::fstat(fd, &about) == 0 ? static_cast<std::uint64_t>(about.st_size) : 0;
}

bool read_at(int fd, std::uint64_t at, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t count = ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
    if (count <= 0) return false;
    at += static_cast<std::uint64_t>(count);
    into = into.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

// The files of one object.
class CachedObject {
 public:
  CachedObject(const std::string& folder, const StoredObject& object)
      : path_(fmt::format("{}/{}", folder, trust::hex_of(object.digest))),
        object_(object),
        bytes_(::open(path_.c_str(), kOpening, 0644)),
        leaves_(::open((path_ + kLeaves).c_str(), kOpening, 0644)) {}
  ~CachedObject() {
    for (const int fd : {bytes_, leaves_}) {
      if (fd >= 0) (void)::close(fd);
    }
  }
  CachedObject(const CachedObject&) = delete;
  CachedObject& operator=(const CachedObject&) = delete;

  bool is_open() const { return bytes_ >= 0 && leaves_ >= 0; }
  const std::string& path() const { return path_; }

  // Until this process alone writes it, or all of it is there. False: another one has the lock, and
  // writes nothing.
  bool wait() {
    std::uint64_t known = size_of(bytes_);
    auto since = std::chrono::steady_clock::now();
    while (!is_whole()) {
      if (::flock(bytes_, LOCK_EX | LOCK_NB) == 0) return is_writer_ = is_same_file();
      const auto now = std::chrono::steady_clock::now();
      const std::uint64_t there = size_of(bytes_);
      if (there != known) since = now;
      known = there;
      if (now - since > kPatience) return false;
      std::this_thread::sleep_for(kLook);
    }
    return true;
  }
  bool is_writer() const { return is_writer_; }

  // The digests of the leaves that are there.
  Digests leaves() const {
    const std::uint64_t whole = size_of(bytes_) >= object_.bytes
                                    ? model::leaf_count(object_.bytes)
                                    : size_of(bytes_) / model::kLeafBytes;
    Digests digests(
        static_cast<std::size_t>(std::min(whole, size_of(leaves_) / sizeof(model::Digest256))));
    if (!read_at(leaves_, 0, std::as_writable_bytes(std::span(digests)))) digests.clear();
    return digests;
  }
  // False: it is not what its digest says, or cannot be read.
  bool read_leaf(std::uint64_t leaf, const model::Digest256& digest,
                 std::span<std::byte> into) const {
    if (!read_at(bytes_, leaf * model::kLeafBytes, into)) return false;
    const Result<model::Digest256> own = model::leaf_digest(into);
    return own.ok() && *own == digest;
  }
  // From this leaf on nothing is there.
  void cut(std::uint64_t leaf) {
    if (!is_writer_) return;
    written_ = std::min(leaf * model::kLeafBytes, object_.bytes);
    digests_ = leaf * sizeof(model::Digest256);
    if (::ftruncate(bytes_, static_cast<off_t>(written_)) != 0 ||
        ::ftruncate(leaves_, static_cast<off_t>(digests_)) != 0 ||
        ::lseek(bytes_, 0, SEEK_END) < 0 || ::lseek(leaves_, 0, SEEK_END) < 0)
      is_writer_ = false;
  }
  // The bytes first: digests that are there are of leaves that are.
  void append(std::span<const std::byte> leaf, const model::Digest256& digest) {
    if (!is_writer_) return;
    Status written = write_to_file(bytes_, path_, leaf, written_);
    if (written.ok())
      written = write_to_file(leaves_, path_ + kLeaves, std::as_bytes(std::span(digest)), digests_);
    if (written.ok()) return;
    is_writer_ = false;
    log_warn("objects of a store are not kept: {}", shown_line(written.message()));
  }
  void remove() const {
    (void)::unlink(path_.c_str());
    (void)::unlink((path_ + kLeaves).c_str());
  }
  // It is not the oldest any more.
  void touch() const { (void)::futimens(bytes_, nullptr); }

 private:
  bool is_whole() const {
    return size_of(bytes_) == object_.bytes &&
           size_of(leaves_) == model::leaf_count(object_.bytes) * sizeof(model::Digest256);
  }
  // Another process may have removed it before it was locked.
  bool is_same_file() const {
    struct stat own, there;
    return ::fstat(bytes_, &own) == 0 && ::stat(path_.c_str(), &there) == 0 &&
           own.st_ino == there.st_ino;
  }

  std::string path_;
  const StoredObject& object_;
  int bytes_, leaves_;
  bool is_writer_ = false;
  std::uint64_t written_ = 0, digests_ = 0;  // in the files
};

}  // namespace

Result<std::shared_ptr<ObjectCache>> ObjectCache::open(const std::string& folder,
                                                       std::uint64_t max_bytes) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) errno = error.value();
  if (!error && !fs::is_directory(folder, error)) errno = ENOTDIR;
  if (error || !fs::is_directory(folder, error) || ::access(folder.c_str(), W_OK | X_OK) != 0)
    return system_error(folder, "objects of stores cannot be kept there");
  return std::shared_ptr<ObjectCache>(new ObjectCache(folder, max_bytes));
}

Result<std::shared_ptr<ObjectCache>> ObjectCache::of_settings() {
  const std::string folder = setting("STORE_CACHE").text;
  if (folder == "none" || folder.empty()) return std::shared_ptr<ObjectCache>();
  SPARCL_ASSIGN_OR_RETURN(const double gib, setting_number("STORE_CACHE_GIB"));
  Result<std::shared_ptr<ObjectCache>> opened =
      open(folder, static_cast<std::uint64_t>(gib * static_cast<double>(std::uint64_t{1} << 30)));
  if (!opened.ok()) return opened.status().with_prefix("SPARCL_STORE_CACHE: ");
  return opened;
}

bool ObjectCache::has(const StoredObject& object) const {
  struct stat about;
  const std::string path = fmt::format("{}/{}", folder_, trust::hex_of(object.digest));
  return ::stat((path + kLeaves).c_str(), &about) == 0 &&
         static_cast<std::uint64_t>(about.st_size) ==
             model::leaf_count(object.bytes) * sizeof(model::Digest256) &&
         ::stat(path.c_str(), &about) == 0 &&
         static_cast<std::uint64_t>(about.st_size) == object.bytes;
}

Status ObjectCache::read(ObjectStore& store, const StoredObject& object, const PieceSink& sink) {
  if (object.bytes < kLeastBytes || object.bytes > max_bytes_)
    return read_from_store(store, object, sink);
  CachedObject cached(folder_, object);
  if (!cached.is_open() || !cached.wait()) return read_from_store(store, object, sink);
  Digests leaves = cached.leaves();
  if (leaves.size() == model::leaf_count(object.bytes)) {
    SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(leaves));
    if (root != object.digest) leaves.clear();
  }
  std::vector<std::byte> leaf(model::kLeafBytes);
  std::uint64_t done = 0;  // leaves
  for (; done < leaves.size(); ++done) {
    const std::uint64_t first = done * model::kLeafBytes;
    const auto count = static_cast<std::size_t>(model::leaf_end(done, object.bytes) - first);
    const std::span<std::byte> own = std::span(leaf).first(count);
    if (!cached.read_leaf(done, leaves[done], own)) break;
    const std::span<std::byte> into = sink.memory(first, count);
    std::memcpy(into.data(), own.data(), count);
    SPARCL_RETURN_IF_ERROR(sink.take(into));
  }
  if (done == model::leaf_count(object.bytes)) return cached.touch(), Status();
  if (!cached.is_writer()) cached.remove();  // all was there, and is damaged
  leaves.resize(static_cast<std::size_t>(done));
  cached.cut(done);
  const auto keep = [&](std::span<const std::byte> piece, const model::Digest256& digest) {
    cached.append(piece, digest);
  };
  const Status rest = read_from_store(store, object, sink, std::move(leaves), keep);
  if (rest.code() == Code::kCorrupt) cached.remove();
  if (rest.ok() && cached.is_writer()) remove_old(cached.path());
  return rest;
}

bool ObjectCache::find_leaves(const StoredObject& object, std::uint64_t first,
                              std::span<const model::Digest256> digests,
                              std::span<std::byte> into) const {
  const std::string path = fmt::format("{}/{}", folder_, trust::hex_of(object.digest));
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_there = read_at(fd, first * model::kLeafBytes, into);
  (void)::close(fd);
  for (const model::Digest256& digest : digests) {
    if (!is_there) return false;
    const std::span<std::byte> leaf =
        into.first(std::min<std::size_t>(into.size(), model::kLeafBytes));
    const Result<model::Digest256> own = model::leaf_digest(leaf);
    if (!own.ok() || *own != digest) return false;
    into = into.subspan(leaf.size());
  }
  return is_there;
}

// The oldest first. What is being written is left alone.
void ObjectCache::remove_old(const std::string& kept) {
  struct Entry {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (const auto& each : fs::directory_iterator(folder_, error)) {
    std::error_code gone;
    const Entry entry{each.last_write_time(gone), gone ? 0 : each.file_size(gone), each.path()};
    if (gone || !is_name(each.path().filename().string())) continue;
    total += entry.bytes;
    if (each.path() != kept) entries.push_back(entry);
  }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= max_bytes_) return;
    const int fd = ::open(entry.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
      fs::remove(entry.path, error);
      fs::remove(entry.path.string() + kLeaves, error);
      total -= entry.bytes;
    }
    (void)::close(fd);
  }
}

bool is_fetched(const ObjectStore& store, const StoredObject& object) {
  return store.cache() != nullptr && store.cache()->has(object);
}

}  // namespace sparcl::store
