#include "src/elastic/trusted_contributors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::elastic {
namespace {

constexpr double kContributorsPeriod = 1;  // seconds between two looks at the file; heuristic
constexpr std::size_t kMaxJoins = 65'536;  // of workers that are gone, too: some 8 MB

}  // namespace

Result<TrustedContributors> TrustedContributors::load(const std::string& path) {
  TrustedContributors made;
  if (path.empty()) return made;
  made.file_ = FileStamp(path);  // before it is read
  SPARCL_ASSIGN_OR_RETURN(made.trusted_, trust::TrustedKeys::load(path));
  return made;
}

Status TrustedContributors::check(const WorkerClaim& claim, std::uint32_t number,
                                  const Join& join) const {
  if (!trusted_) return {};
  if (join.signatures.empty())
    return Status(Code::kUnauthorized,
                  "contributions need a signature here, and it has no key: give it one of sparcl "
                  "keygen (options.key_path), and add the line of the .pub file to the "
                  "aggregator's contributors");
  return trusted_->verify(signed_bytes(claim, number, join.count), join.signatures)
      .with_prefix("it is no contributor of this aggregator: ");
}

bool TrustedContributors::is_newer(aggregate::WorkerId worker, const Join& join) const {
  return std::ranges::all_of(join.signatures, [&](const trust::KeySignature& each) {
    const auto last = joins_.find({worker, each.key});
    return last == joins_.end() || join.count > last->second;
  });
}

bool TrustedContributors::are_by_one_key(const Join& a, const Join& b) const {
  return trusted_ && std::ranges::any_of(a.signatures, [&](const trust::KeySignature& each) {
           return trusted_->trusts(each.key) && has_key(b, each.key);
         });
}

// Keys that are not trusted prove nothing, so what they sign is not kept.
void TrustedContributors::note(aggregate::WorkerId worker, const Join& join,
                               const std::function<bool(aggregate::WorkerId)>& is_there) {
  if (!trusted_) return;
  if (joins_.size() >= kMaxJoins)
    std::erase_if(joins_, [&](const auto& each) { return !is_there(each.first.first); });
  for (const trust::KeySignature& each : join.signatures) {
    if (!trusted_->trusts(each.key)) continue;
    std::uint64_t& last = joins_[{worker, each.key}];
    last = std::max(last, join.count);
  }
}

Status TrustedContributors::check(const WorkerClaim& claim, const Offered& offered) const {
  if (!trusted_) return {};
  return trusted_->verify(signed_bytes(claim, offered), offered.signatures)
      .with_prefix(fmt::format("the contribution to round {}: ", offered.round));
}

bool TrustedContributors::look(double now) {
  if (!trusted_ || now - looked_at_ < kContributorsPeriod) return false;
  looked_at_ = now;
  if (::access(file_.path().c_str(), F_OK) != 0) {
    replication::warn_of_changed_file(
        troubles_, Status(Code::kSystemError, fmt::format("{}: the file is gone", file_.path())),
        now);
    return false;
  }
  if (!file_.has_changed()) return false;
  Result<trust::TrustedKeys> keys = trust::TrustedKeys::load_any(file_.path());
  if (!keys.ok()) {
    replication::warn_of_changed_file(troubles_, keys.status(), now);
    return false;
  }
  file_.keep();
  trusted_ = std::move(*keys);
  log_info("aggregate: {}: the file names {} contributors now", file_.path(), trusted_->count());
  return true;
}

}  // namespace sparcl::elastic
