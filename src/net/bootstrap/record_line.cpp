#include "src/net/bootstrap/record_line.hpp"

namespace sparcl::net {

Result<RecordLine::Payload> RecordLine::make_payload(RecordKind kind,
                                                     std::vector<std::byte> bytes) {
  SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, digest_of(bytes));
  return Payload{kind, std::make_shared<const std::vector<std::byte>>(std::move(bytes)), digest};
}

RecordLine::RecordLine(ByteLine line, const BootstrapSession& session, Side own,
                       std::uint64_t max_bytes)
    : line_(std::move(line)), session_(session), own_(own), max_bytes_(max_bytes) {
  line_.expect(kRecordHeaderBytes);
}

Status RecordLine::queue(const Payload& payload) {
  SPARCL_ASSIGN_OR_RETURN(
      const auto header,
      session_.seal(own_, sent_, {payload.kind, payload.bytes->size(), payload.digest}));
  ++sent_;
  line_.queue(header);
  line_.queue(payload.bytes);
  return {};
}

RecordLine::Progress RecordLine::receive() {
  if (in_payload_ && line_.received().size() == header_.bytes) {  // the last call's record
    in_payload_ = false;
    line_.expect(kRecordHeaderBytes);
  }
  while (true) {
    const ByteLine::Progress step = line_.read();
    if (step == ByteLine::Progress::kClosed) return Progress::kClosed;
    if (step == ByteLine::Progress::kMore) return Progress::kMore;
    if (in_payload_) {
      const Result<trust::Sha256::Digest> digest = digest_of(line_.received());
      return digest.ok() && *digest == header_.digest ? Progress::kRecord : Progress::kForged;
    }
    const Side other = own_ == Side::kRank ? Side::kRoot : Side::kRank;
    const Result<RecordHeader> header = session_.open(other, received_, line_.received());
    if (!header.ok() || header->bytes > max_bytes_) return Progress::kForged;
    ++received_;
    header_ = *header;
    in_payload_ = true;
    line_.expect(header_.bytes);
  }
}

}  // namespace sparcl::net
