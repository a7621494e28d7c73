#pragma once
// The options by which `publish`, `subscribe` and `status` prove who they are.

#include <CLI/CLI.hpp>
#include <string>

#include "src/replication/service_security.hpp"
#include "tools/sparcl/command.hpp"

namespace sparcl::tool {

// Declares --certificates. role: that the folder's certificate needs.
inline void add_certificates(CLI::App& app, std::string& path, const std::string& role) {
  app.add_option("--certificates", path,
                 "folder with ca.crt, tls.crt and tls.key in place of a secret, of role " + role +
                     " (default: SPARCL_CERTIFICATES)")
      ->check(empty_name_fault)
      ->type_name("FOLDER");
}

// Fills in what the settings name. A usage error if a secret and certificates are given.
inline void take_credentials(std::string& secret_path, std::string& certificates_path) {
  const Status status = replication::take_credentials(secret_path, certificates_path);
  if (!status.ok()) throw CLI::ValidationError("--certificates", status.message());
}

}  // namespace sparcl::tool
