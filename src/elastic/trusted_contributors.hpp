#pragma once
// The contributors of a root: all workers that may connect, or those with a key of a file.

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

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

  // False: whoever may connect contributes.
  bool are_named() const { return trusted_.has_value(); }
  // Unauthorized: none of the keys has signed that the worker takes part.
  Status check(const WorkerClaim& claim, std::uint32_t number, const Join& join) const;
  // Whether the JOIN is newer than all that its trusted keys have signed for this worker: none
  // counts twice. It has been checked.
  bool is_newer(aggregate::WorkerId worker, const Join& join) const;
  // A trusted key has signed both. Both have been checked.
  bool are_by_one_key(const Join& a, const Join& b) const;
  // It counts from now on. is_there(worker): others are forgotten once there are very many.
  void note(aggregate::WorkerId worker, const Join& join,
            const std::function<bool(aggregate::WorkerId)>& is_there);
  // Unauthorized: none of the keys has signed the contribution.
  Status check(const WorkerClaim& claim, const Offered& offered) const;

  // Reads the file again if it was changed, and looks for that at most once a second. True: there
  // are other keys now. Without a key in it nobody contributes. A file that cannot be used, or is
  // gone, changes nothing.
  bool look(double now);

 private:
  FileStamp file_{};
  std::optional<trust::TrustedKeys> trusted_;
  std::map<std::pair<aggregate::WorkerId, trust::PublicKey>, std::uint64_t>
      joins_;  // the last ones
  double looked_at_ = 0;
  RepeatedMessages troubles_;
};

}  // namespace sparcl::elastic
