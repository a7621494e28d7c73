#pragma once
// Records over a connection, after the handshake. Each side numbers its records and seals them with
// the session's key.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/net/bootstrap/bootstrap_wire.hpp"
#include "src/net/bootstrap/byte_line.hpp"

namespace sparcl::net {

class RecordLine {
 public:
  // kForged: not sealed by a holder of the secret, longer than allowed, or damaged. The connection
  // is then unusable.
  enum class Progress { kRecord, kMore, kClosed, kForged };

  struct Payload {
    RecordKind kind = RecordKind::kNote;
    std::shared_ptr<const std::vector<std::byte>> bytes;
    trust::Sha256::Digest digest{};
  };
  // Digests once; the payload may then be queued on many lines.
  static Result<Payload> make_payload(RecordKind kind, std::vector<std::byte> bytes);

  RecordLine() = default;
  // `max_bytes`: of the payloads of the other side.
  RecordLine(ByteLine line, const BootstrapSession& session, Side own, std::uint64_t max_bytes);

  ByteLine& line() { return line_; }
  const ByteLine& line() const { return line_; }

  Status queue(const Payload& payload);
  // Continues to read. After kRecord: kind() and payload() until the next call.
  Progress receive();
  RecordKind kind() const { return header_.kind; }
  std::span<const std::byte> payload() const { return line_.received(); }

 private:
  ByteLine line_;
  BootstrapSession session_;
  Side own_ = Side::kRank;
  std::uint64_t max_bytes_ = 0;
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
  bool in_payload_ = false;
  RecordHeader header_;
};

}  // namespace sparcl::net
