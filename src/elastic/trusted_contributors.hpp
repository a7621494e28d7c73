#pragma once
// Whose contributions a root takes: those of everybody who may connect, or those that are signed by
// a key of a file.

#include <optional>
#include <span>
#include <string>

#include "src/base/files/file_stamp.hpp"
#include "src/base/repeated_messages.hpp"
#include "src/base/status.hpp"
#include "src/elastic/worker_messages.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::elastic {

class TrustedContributors {
 public:
  TrustedContributors() = default;  // everybody
  // The file of trusted keys; "": everybody.
  static Result<TrustedContributors> load(const std::string& path);

  // Unauthorized: a worker with these keys cannot contribute.
  Status check_keys(std::span<const trust::PublicKey> keys) const;
  // Unauthorized: the contribution is signed by none of the keys.
  Status check(const ContributionClaim& claim) const;

  // Reads the file again if it was changed, and looks for that at most once a second. True: there
  // are other keys now. A file that cannot be used changes nothing.
  bool look(double now);

 private:
  FileStamp file_{};
  std::optional<trust::TrustedKeys> trusted_;
  double looked_at_ = 0;
  RepeatedMessages troubles_;
};

}  // namespace sparcl::elastic
