#include "src/replication/side_file_book.hpp"

#include <algorithm>
#include <utility>

namespace sparcl::replication {
namespace {

constexpr const char* kOtherFiles =
    "the files beside the shards that came are not those of their digest";

Result<SideFileBook::Files> unpack_all(const std::vector<model::PackedFile>& packed,
                                       const Digest256& digest) {
  auto files = std::make_shared<std::vector<model::SideFile>>();
  for (const model::PackedFile& each : packed) {
    SPARCL_ASSIGN_OR_RETURN(model::SideFile file, model::unpack(each));
    files->push_back(std::move(file));
  }
  SPARCL_ASSIGN_OR_RETURN(const Digest256 found, model::digest_of(*files));
  if (found != digest) return corrupt(kOtherFiles);
  return SideFileBook::Files(std::move(files));
}

}  // namespace

SideFileBook::SideFileBook(const std::optional<Digest256>& brought) : is_on_(brought.has_value()) {
  if (brought && *brought != Digest256{}) entries_.push_back({0, *brought, nullptr});
}

void SideFileBook::on_welcome(bool is_new_epoch) {
  is_answered_ = false;
  if (!is_new_epoch || entries_.empty()) return;
  entries_.erase(entries_.begin(), entries_.end() - 1);
  entries_.front().since = 0;
}

Status SideFileBook::on_answer(SideFileSet set) {
  const auto same = std::ranges::find(entries_, set.digest, &Entry::digest);
  Entry next{set.since, set.digest, {}};
  if (same != entries_.end()) {
    next.files = same->files;
  } else if (set.files) {
    SPARCL_ASSIGN_OR_RETURN(next.files, unpack_all(*set.files, set.digest));
  } else {
    return corrupt("the files beside the shards did not come, and are not known here");
  }
  is_answered_ = true;
  if (!entries_.empty() && entries_.back().digest == next.digest) return {};  // from before on
  std::erase_if(entries_, [&](const Entry& each) { return each.since >= next.since; });
  entries_.push_back(std::move(next));
  if (entries_.size() > kMaxEntries) entries_.pop_front();
  return {};
}

std::optional<SideFileBook::Entry> SideFileBook::of(std::uint64_t version) const {
  if (entries_.empty()) return {};
  const auto later =
      std::ranges::find_if(entries_, [&](const Entry& each) { return each.since > version; });
  return later == entries_.begin() ? entries_.front() : *std::prev(later);
}

}  // namespace sparcl::replication
