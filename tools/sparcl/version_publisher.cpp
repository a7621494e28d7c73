#include "tools/sparcl/version_publisher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/shown_text.hpp"
#include "src/model/files/converter.hpp"
#include "src/net/socket.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/published_model.hpp"
#include "tools/sparcl/stray_shards.hpp"
#include "tools/sparcl/version_folder.hpp"
#include "tools/sparcl/watched_folder.hpp"

namespace sparcl::tool {
namespace {

constexpr std::chrono::seconds kStorePause{10};  // after a failure of the store; heuristic

}  // namespace

VersionPublisher::VersionPublisher(std::optional<replication::Listener> listener,
                                   replication::PublisherOptions options,
                                   std::unique_ptr<VersionStore> store,
                                   std::optional<std::uint64_t> first_version, bool as_json)
    : listener_(std::move(listener)),
      address_(listener_ ? listener_->address : ""),
      options_(std::move(options)),
      next_version_(first_version.value_or(1 + (store != nullptr ? store->first_version() : 0))),
      as_json_(as_json),
      store_(std::move(store)) {}

Result<std::unique_ptr<VersionPublisher>> VersionPublisher::create(
    replication::Listener listener, replication::PublisherOptions options,
    std::unique_ptr<VersionStore> store, std::optional<std::uint64_t> first_version, bool as_json) {
  const auto load = [&] {
    return replication::load_server_security(options.secret_path, options.certificates_path);
  };
  SPARCL_ASSIGN_OR_RETURN(options.security, load());
  SPARCL_ASSIGN_OR_RETURN(const replication::ServerSecurity until_then, load());
  std::unique_ptr<VersionPublisher> made(new VersionPublisher(
      std::move(listener), std::move(options), std::move(store), first_version, as_json));
  SPARCL_ASSIGN_OR_RETURN(
      std::unique_ptr<replication::EmptyPublisher> empty,
      replication::EmptyPublisher::create(*made->listener_, made->options_.model_id,
                                          made->options_.silence_s, until_then));
  made->empty_ = std::move(empty);
  return made;
}

std::unique_ptr<VersionPublisher> VersionPublisher::create(
    std::unique_ptr<VersionStore> store, std::optional<std::uint64_t> first_version, bool as_json) {
  return std::unique_ptr<VersionPublisher>(
      new VersionPublisher(std::nullopt, {}, std::move(store), first_version, as_json));
}

Status VersionPublisher::begin() {
  if (publisher_ != nullptr || !listener_) return {};
  SPARCL_ASSIGN_OR_RETURN(
      std::unique_ptr<replication::Publisher> publisher,
      replication::Publisher::create(memory_->view(), options_, std::move(*listener_)));
  const std::lock_guard lock(beginning_);
  publisher_ = std::move(publisher);
  return {};
}

// A complete state. marked: the file that a writer of the state changes.
Status VersionPublisher::read_whole(const std::string& path, const std::string& marked) {
  const std::optional<FileMark> before = mark_of(marked);
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint checkpoint, model::Checkpoint::open_unread(path));
  warn_of_strays(checkpoint.stray_paths());
  SPARCL_FAILPOINT("publish.read");
  // An unreadable first checkpoint cannot define the model.
  Result<std::unique_ptr<ModelMemory>> first = std::unique_ptr<ModelMemory>();
  if (memory_ == nullptr) first = ModelMemory::create(checkpoint.schema());
  if (!first.ok()) return first.status();
  is_whole_ = false;
  SPARCL_RETURN_IF_ERROR((memory_ == nullptr ? *first : memory_)->read(checkpoint));
  if (checkpoint.layout().is_folder) SPARCL_RETURN_IF_ERROR(read_side_files(path));
  if (mark_of(marked) != before)
    return Status(Code::kInProgress, fmt::format("{}: it has changed while it was read", path));
  is_whole_ = true;
  layout_ = checkpoint.layout();
  if (memory_ != nullptr) return {};
  SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> description, describe_layout(checkpoint.layout()));
  options_.description = std::move(description);
  memory_ = std::move(*first);
  return {};
}

// The files beside the shards. They travel with the version.
Status VersionPublisher::read_side_files(const std::string& path) {
  std::vector<std::string> skipped;
  SPARCL_ASSIGN_OR_RETURN(side_files_, model::read_side_files(path, &skipped));
  SPARCL_ASSIGN_OR_RETURN(side_digest_, model::digest_of(side_files_));
  const std::string names = shown(fmt::format("{}", fmt::join(skipped, ", ")));
  if (std::exchange(skipped_, names) == names || names.empty()) return {};
  print_warning(fmt::format(
      "{}: replicas are not sent these files, which have more than {} MiB, or more than {} MiB "
      "together: {}",
      shown(path), model::kMaxSideFileBytes >> 20, model::kMaxSideFilesBytes >> 20, names));
  return {};
}

// To the publisher, for the next version. The weights travel without files that cannot.
void VersionPublisher::give_side_files() {
  if (side_digest_ == given_digest_) return;
  given_digest_ = side_digest_;
  const Status status = publisher_->set_side_files(side_files_);
  if (!status.ok())
    print_warning(fmt::format("{}: {}: replicas keep the files of the version before", shown(path_),
                              status.message()));
}

// A change of the state in memory, which stays as it is after an error.
Status VersionPublisher::read_change(const std::string& path) {
  if (memory_ == nullptr || !is_whole_) {
    return Status(Code::kWrongBase,
                  fmt::format("{}: it holds changes of a version that was not read: a complete "
                              "version must come first",
                              path));
  }
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, model::chosen_kernels());
  const std::string name = std::filesystem::path(path_).filename().string();
  const bool has_version = name.starts_with("weight_v") || name.starts_with("delta-");
  const model::ChangeBase base =
      model::ChangeBase::over(memory_->schema(), memory_->tensors(), path_,
                              has_version ? model::version_in(name) : std::nullopt, *kernels);
  model::FileWatch watch;
  watch.on_stray_shards = warn_of_strays;
  SPARCL_ASSIGN_OR_RETURN(const model::SparseChange change, model::read_change(path, base, watch));
  memory_->apply(change);
  return {};
}

// If versions have the numbers of names.
Status VersionPublisher::take_number(const std::string& path) {
  if (!is_by_name_) return {};
  const std::optional<std::uint64_t> number = number_in_name(path);
  if (!number || *number == 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: its name has no number above 0 to be the version: rename it, or "
                              "publish with --version-from count",
                              path));
  }
  if (*number <= version_) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: the number in its name is {}, version {} is published already: "
                              "versions must rise",
                              path, *number, version_));
  }
  next_version_ = *number;
  return {};
}

Status VersionPublisher::read(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  SPARCL_RETURN_IF_ERROR(take_number(path));
  std::error_code error;
  std::optional<VersionFolder> folder;
  if (std::filesystem::is_directory(path, error)) folder = find_version_folder(path);
  SPARCL_RETURN_IF_ERROR(folder && folder->is_change ? read_change(folder->content)
                                                     : read_whole(folder ? folder->content : path,
                                                                  folder ? folder->marker : path));
  path_ = path;
  read_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {};
}

Result<bool> VersionPublisher::is_stored(const std::string& path, std::uint64_t places_before) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error) && find_version_folder(path)) return false;
  SPARCL_RETURN_IF_ERROR(read_whole(path, path));
  return store_->has_state(places_before, memory_->view().hash());
}

Result<std::size_t> VersionPublisher::count_stored(std::span<const std::string> paths) {
  if (store_ == nullptr || store_->first_version() == 0 || listener_ || is_by_name_) return 0;
  std::size_t count = paths.size();
  for (; count > 0; --count) {
    SPARCL_ASSIGN_OR_RETURN(const bool is_newest, is_stored(paths[count - 1], 0));
    if (is_newest) break;
  }
  for (std::size_t before = 1; before < count; ++before) {
    SPARCL_ASSIGN_OR_RETURN(const bool is_there, is_stored(paths[count - 1 - before], before));
    if (!is_there) return 0;
  }
  if (count > 0)
    print_note(fmt::format("the store has {} as its newest version, {}: {} passed over",
                           shown(paths[count - 1]), store_->first_version(),
                           count == 1 ? "it is" : "it and the files before it are"));
  return count;
}

bool VersionPublisher::has_published_what_was_read() const {
  const auto found = published_.find(path_);
  return found != published_.end() &&
         found->second == Content{memory_->view().hash(), side_digest_};
}

Result<VersionStore::Stored> VersionPublisher::put_into_store(const Hash128& hash) {
  SPARCL_ASSIGN_OR_RETURN(const VersionStore::Stored stored,
                          store_->publish(next_version_, *memory_, hash, layout_,
                                          {side_files_, side_digest_}, has_settled_));
  if (stored.was_there && !std::exchange(has_told_of_store_, true))
    print_note(
        fmt::format("the store has versions up to {} already: {} is passed over, and so are "
                    "others that it has",
                    store_->first_version(), shown(path_)));
  return stored;
}

Result<VersionPublisher::Published> VersionPublisher::publish_to_all() {
  SPARCL_RETURN_IF_ERROR(begin());
  Published published;
  published.is_complete = publisher_ != nullptr && version_ == 0;
  if (publisher_ != nullptr) {
    give_side_files();
    SPARCL_ASSIGN_OR_RETURN(const replication::Publisher::PublishReport report,
                            publisher_->publish(next_version_));
    published.hash = report.hash;
    published.changed = report.changed;
    published.bytes = report.stream_bytes;
  } else {
    published.hash = memory_->view().hash();
  }
  if (store_ == nullptr) return published;
  const Result<VersionStore::Stored> stored = put_into_store(published.hash);
  if (!stored.ok() && publisher_ == nullptr) return stored.status();
  if (stored.ok()) published.stored = *stored;
  if (!stored.ok()) warn_of_store(stored.status());
  if (publisher_ != nullptr) return published;
  published.is_complete = published.stored->is_complete;
  published.changed = published.stored->changed;
  published.bytes = published.stored->bytes;
  return published;
}

void VersionPublisher::tell(const Published& published, double seconds) {
  const std::uint64_t elements = memory_->view().map->element_count(),
                      dense_bytes = memory_->byte_count();
  Json json{{"version", version_},
            {"file", path_},
            {"hash", to_hex(published.hash)},
            {"changed", published.changed},
            {"bytes", published.bytes},
            {"bytes_dense", dense_bytes},
            {"seconds", seconds}};
  const bool is_first = !std::exchange(has_told_, true);
  std::string what =
      published.is_complete
          ? fmt::format("{}, {} elements, {}", is_first ? "the first" : "complete", elements,
                        human_bytes(dense_bytes))
          : fmt::format("{} of {} elements changed, {} instead of {}", published.changed, elements,
                        human_bytes(published.bytes), human_bytes(dense_bytes));
  if (published.stored) {
    json["stored_bytes"] = published.stored->bytes;
    what += fmt::format(", {} to the store", human_bytes(published.stored->bytes));
    if (const std::optional<RemovedVersions>& removed = published.stored->removed) {
      json["removed_versions"] = removed->versions;
      json["removed_bytes"] = removed->bytes;
      if (removed->versions > 0)
        what += fmt::format(", removed {} versions, {}", removed->versions,
                            human_bytes(removed->bytes));
    }
  }
  print_news(as_json_, json,
             fmt::format("version {}: {}, {}, {:.3f} s, {}\n", version_, shown(path_), what,
                         seconds, to_hex(published.hash)));
}

Status VersionPublisher::publish() {
  const auto start = std::chrono::steady_clock::now();
  const Result<Published> published = publish_to_all();
  if (!published.ok()) return published.status().with_prefix(path_ + ": ");
  newest_hash_ = published->hash;
  published_[path_] = {newest_hash_, side_digest_};
  version_ = next_version_++;
  store_waits_ = store_ != nullptr && (!published->stored || published->stored->waits);
  if (acknowledger_) acknowledger_->note(path_);
  const bool is_news = publisher_ != nullptr || !(store_waits_ || published->stored->was_there);
  if (is_news)
    tell(*published,
         read_s_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  acknowledge_published();
  return {};
}

void VersionPublisher::acknowledge_published() {
  if (acknowledger_ && !store_waits_) acknowledger_->write(net::monotonic_seconds());
}

// Replicas have the version. A later one has these changes, too.
void VersionPublisher::warn_of_store(const Status& why) {
  store_retry_at_ = std::chrono::steady_clock::now() + kStorePause;
  print_warning(fmt::format("{}: it is not in the store, and is tried again: {}", shown(path_),
                            why.message()));
}

// The memory may hold a part of a later file meanwhile, or another one.
bool VersionPublisher::holds_newest() const {
  return is_whole_ && memory_->view().hash() == newest_hash_;
}

Status VersionPublisher::settle_store() {
  has_settled_ = true;
  const auto start = std::chrono::steady_clock::now();
  if (!store_waits_ || start < store_retry_at_ || !holds_newest()) return {};
  next_version_ = version_;
  Result<VersionStore::Stored> stored = put_into_store(newest_hash_);
  next_version_ = version_ + 1;
  if (!stored.ok() && publisher_ == nullptr) return stored.status().with_prefix(path_ + ": ");
  if (!stored.ok()) return warn_of_store(stored.status()), Status();
  store_waits_ = false;
  tell({stored->is_complete, newest_hash_, stored->changed, stored->bytes, *stored},
       std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return {};
}

Status VersionPublisher::start_serving() {
  if (version_ != 0) SPARCL_RETURN_IF_ERROR(settle_store());
  acknowledge_published();
  if (is_serving_ || publisher_ == nullptr) return {};
  is_serving_ = true;
  {
    const std::lock_guard lock(beginning_);
    empty_ = nullptr;  // two listeners at one port would each get a part of the connections
  }
  return publisher_->start_serving();
}

std::string VersionPublisher::status() const {
  const std::lock_guard lock(beginning_);
  return empty_ != nullptr ? empty_->status() : publisher_->status();
}

int VersionPublisher::held_by() const {
  if (publisher_ == nullptr) return 0;
  const replication::Publisher::Count count = publisher_->count(version_);
  return count.holding + count.left;
}

bool VersionPublisher::is_held_by(int replicas) const {
  return version_ != 0 && held_by() >= replicas;
}

}  // namespace sparcl::tool
