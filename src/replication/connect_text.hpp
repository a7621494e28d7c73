#pragma once

#include <fmt/format.h>

#include <cerrno>

#include "src/base/status.hpp"
#include "src/net/socket.hpp"

namespace sparcl::replication {

// Why there is no connection to a `what` ("publisher", "replica").
inline Status no_connection(int error, const char* what) {
  if (error != ECONNREFUSED)
    return Status(Code::kRemoteError, fmt::format("no connection: {}", error_text(error)));
  return Status(
      Code::kRemoteError,
      fmt::format("connection refused: no {} listens there; start one, or correct HOST:PORT",
                  what));
}

// A publisher without the key and a link that is cut look the same from here: the connection ends
// during the handshake. A wrong key is the likelier cause, because it ends each try. A cut link
// ends few of them.

// Adds what the user can do about a connection with certificates that ended during the handshake
// without a word of the publisher.
inline Status closed_without_certificates(const Status& why) {
  return Status(
      why.code(),
      fmt::format("{}: it has no certificates, or the link was cut. If this repeats, give "
                  "both sides --certificates FOLDER, or both a secret, or neither",
                  why.message()));
}

// Adds what the user can do about an encrypted connection that ended before its PROOF.
inline Status closed_in_handshake(const Status& why) {
  return Status(why.code(),
                fmt::format("{}: it has another secret, or none, or the link was cut. If this "
                            "repeats, give both sides files that sparcl secret made together",
                            why.message()));
}

// The same, of one that closed a connection in the clear before its first answer. role: that this
// side needs.
inline Status closed_before_answer(const Status& why, trust::Role role) {
  return Status(why.code(),
                fmt::format("{} before it has answered: it has a secret or certificates, or the "
                            "link was cut. If this repeats, give this side its own of role {} "
                            "(--secret or --certificates; secret_path or certificates_path)",
                            why.message(), trust::role_name(role)));
}

}  // namespace sparcl::replication
