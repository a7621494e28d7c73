#include "src/elastic/trusted_contributors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::elastic {
namespace {

constexpr double kContributorsPeriod = 1;  // seconds between two looks at the file; heuristic

}  // namespace

Result<TrustedContributors> TrustedContributors::load(const std::string& path) {
  TrustedContributors made;
  if (path.empty()) return made;
  made.file_ = FileStamp(path);  // before it is read
  SPARCL_ASSIGN_OR_RETURN(made.trusted_, trust::TrustedKeys::load(path));
  return made;
}

Status TrustedContributors::check_keys(std::span<const trust::PublicKey> keys) const {
  if (!trusted_) return {};
  const auto is_trusted = [this](const trust::PublicKey& key) { return trusted_->trusts(key); };
  if (std::ranges::any_of(keys, is_trusted)) return {};
  if (keys.empty())
    return Status(Code::kUnauthorized,
                  "contributions need a signature here, and it has no key: give it one of sparcl "
                  "keygen (options.key_path), and add the line of the .pub file to the "
                  "aggregator's contributors");
  return Status(Code::kUnauthorized,
                fmt::format("its key {} is not among the {} contributors of this aggregator: add "
                            "the line of its .pub file there",
                            trust::fingerprint(keys.front()), trusted_->count()));
}

Status TrustedContributors::check(const ContributionClaim& claim) const {
  if (!trusted_) return {};
  return trusted_->verify(signed_bytes(claim), claim.offered.signatures)
      .with_prefix(fmt::format("the contribution to round {}: ", claim.offered.round));
}

bool TrustedContributors::look(double now) {
  if (!trusted_ || now - looked_at_ < kContributorsPeriod) return false;
  looked_at_ = now;
  if (!file_.has_changed()) return false;
  Result<trust::TrustedKeys> keys = trust::TrustedKeys::load(file_.path());
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
