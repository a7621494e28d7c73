#include "tools/sparcl/followed_chain.hpp"

#include <fmt/format.h>

#include "src/base/checksum.hpp"

namespace sparcl::tool {
namespace {

// Between two looks for a known record while `newest` names an earlier one: its writer may have
// been killed before it wrote `newest`. Heuristic.
constexpr double kLookSeconds = 10;

}  // namespace

Status FollowedChain::begun_anew(const store::VersionRecord& other) const {
  return Status(
      Code::kMismatch,
      fmt::format("{}: another run has written record {}: the store was begun anew, or another "
                  "store lies there now. Version {} ({}) was read last, and its versions are not "
                  "taken: put the old store back, or start this program again to take what is "
                  "there",
                  chain_.store().location_of(store::commit_key(other.number)), other.number,
                  last_->version, to_hex(last_->target_hash)));
}

Status FollowedChain::check_last_is_there(bool has_others) const {
  const Result<std::optional<store::VersionRecord>> looked = chain_.look(last_->number);
  if (looked.status().code() == Code::kCorrupt) return {};  // nobody needs it any more
  if (!looked.ok()) return looked.status();
  const std::optional<store::VersionRecord>& there = *looked;
  if (there) return *there == *last_ ? Status() : begun_anew(*there);
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t oldest, chain_.oldest());
  if (oldest > last_->number) return {};
  const std::string location = chain_.store().location_of(store::commit_key(last_->number));
  if (has_others)
    return Status(Code::kMismatch,
                  fmt::format("{}: the record of version {}, which was read last, is gone, and "
                              "others are there: the store was begun anew. Its versions are not "
                              "taken: put the old store back, or start this program again to take "
                              "what is there",
                              location, last_->version));
  return Status(Code::kRemoteError,
                fmt::format("{}: the record of version {}, which was read last, is gone: was the "
                            "store removed, or is its file system not mounted? Put it back",
                            location, last_->version));
}

Status FollowedChain::check_follows(const store::VersionRecord& record) const {
  if (!last_) return {};
  if (record.number == last_->number) return record == *last_ ? Status() : begun_anew(record);
  if (record.number == last_->number + 1)
    return record.base() == last_->target() ? Status() : begun_anew(record);
  return check_last_is_there(true);
}

// As Chain::newest(), but it also looks at a `newest` that names an earlier record.
Result<std::optional<store::VersionRecord>> FollowedChain::find_newest(double now) {
  if (!last_ || chain_.known() != last_->number) return chain_.newest();
  SPARCL_ASSIGN_OR_RETURN(std::optional<store::VersionRecord> next, chain_.next_of(0));
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t noted, chain_.noted());
  if (next && next->number == noted) return next;
  if (next || noted > last_->number) return chain_.newest();
  if (noted < last_->number && now >= look_at_) {
    SPARCL_RETURN_IF_ERROR(check_last_is_there(noted != 0));
    look_at_ = now + kLookSeconds;
  }
  return last_;
}

Result<std::optional<store::VersionRecord>> FollowedChain::newest(double now) {
  Result<std::optional<store::VersionRecord>> found = find_newest(now);
  Status status = found.status();
  if (status.ok() && *found) status = check_follows(**found);
  if (status.ok() && !*found && last_) status = check_last_is_there(false);
  if (status.ok()) {
    if (*found) last_ = **found;
    return found;
  }
  chain_.forget();
  return status;
}

}  // namespace sparcl::tool
