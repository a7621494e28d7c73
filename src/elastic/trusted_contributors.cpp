#include "src/elastic/trusted_contributors.hpp"

#include <fmt/format.h>
#include <unistd.h>

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
