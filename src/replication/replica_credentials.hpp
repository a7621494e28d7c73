#pragma once
// The files by which a replica knows its publisher, and what they hold. The stamp of each file is
// taken before the file is read: no change is missed, whenever the content is used.

#include <cstddef>
#include <optional>
#include <string>

#include "src/base/files/file_stamp.hpp"
#include "src/replication/service_security.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::replication {

class ReplicaCredentials {
 public:
  struct Paths {  // "": there is no such file
    std::string secret;
    std::string certificates;
    std::string trust;
    std::size_t threshold = 1;  // so many keys of `trust` must sign
  };
  ReplicaCredentials() = default;
  static Result<ReplicaCredentials> load(Paths paths);

  const ClientSecurity& security() const { return security_; }
  // The keys whose signatures the replica wants (load_trust()).
  const std::optional<trust::TrustedKeys>& trusted() const { return trusted_; }

  // A file was changed or replaced since it was read. Certificates are no part of it: their
  // endpoint reads them again (net::TlsEndpoint::look_again()).
  bool have_changed();
  // The same with the files' present content.
  Result<ReplicaCredentials> read_again() const;

 private:
  Status read_trust();

  Paths paths_;
  ClientSecurity security_;
  FileStamp trust_file_{};
  std::optional<trust::TrustedKeys> trusted_;
};

}  // namespace sparcl::replication
