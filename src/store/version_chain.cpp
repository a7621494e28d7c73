#include "src/store/version_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "src/base/log.hpp"

namespace sparcl::store {
namespace {

constexpr const char* kNewest = "newest";

std::string commit_key(std::uint64_t number) { return fmt::format("commits/{:020d}", number); }

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Result<std::optional<VersionRecord>> Chain::look(std::uint64_t number) const {
  std::optional<VersionRecord> found;
  const std::string key = commit_key(number);
  SPARCL_ASSIGN_OR_RETURN(const auto content, store_.read_all(key, kMaxRecordBytes));
  if (!content) return found;
  Result<VersionRecord> record = parse_record(*content);
  if (!record.ok()) return record.status().with_prefix(store_.location_of(key) + ": ");
  if (record->number != number)
    return Status(Code::kCorrupt, fmt::format("{}: it is record {}, which belongs elsewhere",
                                              store_.location_of(key), record->number));
  found = std::move(*record);
  return found;
}

Result<VersionRecord> Chain::record(std::uint64_t number) const {
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> found, look(number));
  if (found) return std::move(*found);
  return Status(Code::kCorrupt, fmt::format("{}: it is missing, and later versions need it",
                                            store_.location_of(commit_key(number))));
}

// Any number up to the newest will do. Without one the records are listed.
Result<std::uint64_t> Chain::hint() const {
  std::uint64_t number = 0;
  SPARCL_ASSIGN_OR_RETURN(const auto content, store_.read_all(kNewest, kMaxRecordBytes));
  if (content) {
    const auto* const text = reinterpret_cast<const char*>(content->data());
    if (std::from_chars(text, text + content->size(), number).ec != std::errc()) number = 0;
    return number;
  }
  SPARCL_RETURN_IF_ERROR(store_.list("commits", [&](const ObjectInfo& each) {
    const std::string name = each.key.substr(each.key.rfind('/') + 1);
    (void)std::from_chars(name.data(), name.data() + name.size(), number);
    return true;
  }));
  return number;
}

Result<std::optional<VersionRecord>> Chain::newest() const {
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t begin, hint());
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> found,
                          look(std::max<std::uint64_t>(begin, 1)));
  if (!found && begin > 1)
    return Status(Code::kCorrupt,
                  fmt::format("{}: it names record {}, which is missing: if records were removed, "
                              "remove this object, too",
                              store_.location_of(kNewest), begin));
  while (found) {
    SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> next, look(found->number + 1));
    if (!next) break;
    found = std::move(next);
  }
  return found;
}

Result<std::vector<ChainStep>> Chain::steps_to(
    const VersionRecord& target, const std::optional<model::HeldVersion>& held) const {
  std::vector<ChainStep> steps;  // the last one first
  const auto is_held = [&](std::uint64_t version, const Hash128& hash) {
    return held && held->version == version && held->hash == hash;
  };
  std::uint64_t delta_bytes = 0;
  std::optional<std::size_t> at_anchor;  // the step of the newest anchor
  for (VersionRecord at = target; !is_held(at.version, at.target_hash);) {
    steps.push_back({at, false});
    if (at.anchor && !at_anchor) at_anchor = steps.size() - 1;
    if (at.delta) delta_bytes += at.delta->bytes;
    const bool may_go_on = at.delta && held && held->version < at.version && at.number > 1 &&
                           (!at_anchor || delta_bytes < steps[*at_anchor].record.anchor->bytes);
    const std::uint64_t before = at.number - 1;
    if (before == 0 && !at_anchor) return Status(Code::kCorrupt, "the chain has no anchor");
    std::optional<Result<VersionRecord>> read;
    if (!at_anchor || may_go_on) read = record(before);
    if (at_anchor && (!read || !read->ok())) {  // a damaged record before the anchor does no harm
      steps.resize(*at_anchor + 1);
      steps.back().is_anchor = true;
      break;
    }
    if (!read->ok()) return read->status();
    VersionRecord earlier = std::move(**read);
    if (earlier.version != at.base_version || earlier.target_hash != at.base_hash)
      return Status(Code::kCorrupt,
                    fmt::format("{}: it leads on from version {}, and record {} is version {}",
                                store_.location_of(commit_key(at.number)), at.base_version, before,
                                earlier.version));
    at = std::move(earlier);
  }
  std::ranges::reverse(steps);
  return steps;
}

Result<StoredObject> Chain::put(const std::string& key, const Staging& bytes,
                                std::uint64_t count) const {
  model::StreamDigest digest;
  SPARCL_RETURN_IF_ERROR(digest.finish(bytes, count));
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(digest.take_leaves()));
  std::vector<Buffer> held;
  std::vector<std::span<const std::byte>> pieces;
  for (std::uint64_t at = 0; at < count; at += Staging::kSegmentBytes) {
    held.push_back(bytes.slice(
        at, static_cast<std::size_t>(std::min<std::uint64_t>(Staging::kSegmentBytes, count - at))));
    pieces.emplace_back(held.back().bytes());
  }
  SPARCL_ASSIGN_OR_RETURN(const bool is_new, store_.put_if_absent(key, pieces));
  if (is_new) return StoredObject{key, count, root};
  return Status(Code::kInternalError,
                fmt::format("{}: another writer has this name", store_.location_of(key)));
}

template <class BufferFor>
Status Chain::read_checked(const StoredObject& object, BufferFor&& buffer_for) const {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> info, store_.look(object.key));
  const std::string location = store_.location_of(object.key);
  if (!info) return Status(Code::kCorrupt, location + ": it is missing");
  if (info->bytes != object.bytes)  // before any memory is taken
    return Status(Code::kCorrupt, fmt::format("{}: it has {} bytes, and its record says {}",
                                              location, info->bytes, object.bytes));
  std::vector<model::Digest256> leaves;
  for (std::uint64_t leaf = 0; leaf < model::leaf_count(object.bytes); ++leaf) {
    const std::uint64_t first = leaf * model::kLeafBytes, end = model::leaf_end(leaf, object.bytes);
    const std::span<std::byte> piece = buffer_for(first, static_cast<std::size_t>(end - first));
    SPARCL_ASSIGN_OR_RETURN(const bool is_there, store_.read(object.key, first, piece));
    if (!is_there) return Status(Code::kCorrupt, location + ": it was removed while it was read");
    SPARCL_ASSIGN_OR_RETURN(leaves.emplace_back(), model::leaf_digest(piece));
  }
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(leaves));
  if (root == object.digest) return {};
  return Status(Code::kCorrupt,
                location + ": its bytes are not those that were published (SHA-256)");
}

Result<Staging> Chain::get(const StoredObject& object, std::uint64_t max_bytes) const {
  if (object.bytes > max_bytes)
    return Status(Code::kCorrupt,
                  fmt::format("{}: its record says {} bytes: no update of these "
                              "tensors has more than {}",
                              store_.location_of(object.key), object.bytes, max_bytes));
  Staging staging;
  SPARCL_RETURN_IF_ERROR(read_checked(object, [&](std::uint64_t first, std::size_t count) {
    staging.reserve(first + count);
    const Buffer piece = staging.slice(first, count);
    return std::span<std::byte>(piece.data(), count);
  }));
  return staging;
}

Status Chain::check(const StoredObject& object) const {
  std::vector<std::byte> leaf(static_cast<std::size_t>(std::min(object.bytes, model::kLeafBytes)));
  return read_checked(
      object, [&](std::uint64_t, std::size_t count) { return std::span(leaf).first(count); });
}

Status stopped(const VersionRecord& other) {
  return Status(Code::kStale,
                fmt::format("another writer has published version {} there: this one publishes "
                            "nothing any more, open the store again",
                            other.version));
}

Result<VersionRecord> Chain::commit(const VersionRecord& record) const {
  const std::string text = serialise(record), key = commit_key(record.number);
  const std::array pieces{bytes_of(text)};
  SPARCL_ASSIGN_OR_RETURN(const bool is_new, store_.put_if_absent(key, pieces));
  VersionRecord there = record;
  if (!is_new) {
    SPARCL_ASSIGN_OR_RETURN(there, this->record(record.number));
    if (there.writer != record.writer || there.version != record.version ||
        there.target_hash != record.target_hash)
      return stopped(there).with_prefix(store_.location_of(key) + ": ");
  }
  const std::string number = fmt::format("{}\n", record.number);
  const std::array hint{bytes_of(number)};
  if (const Status noted = store_.replace(kNewest, hint); !noted.ok())
    log_warn("the store's object for new readers is late: {}", noted.message());
  return there;
}

}  // namespace sparcl::store
