#include "src/elastic/worker_messages.hpp"

#include <algorithm>
#include <string_view>

#include "src/replication/message_fields.hpp"

namespace sparcl::elastic {

using model::read_array;
using model::read_double;
using model::read_flag;
using model::read_hash;
using model::read_text;
using model::write_double;
using model::write_flag;
using model::write_hash;
using model::write_text;
using replication::parse_message;
using replication::read_signatures;
using replication::write_signatures;

namespace {

constexpr std::string_view kMembershipContext = "sparcl membership 1\n";
constexpr std::string_view kContributionContext = "sparcl contribution 1\n";

void write_claim(ByteWriter& out, std::string_view context, const WorkerClaim& claim) {
  out.write_bytes(std::as_bytes(std::span(context)));
  out.write_bytes(claim.nonce);
  write_text(out, claim.model_id);
  write_hash(out, claim.schema_hash);
  out.write(claim.worker);
}

void write_unsigned(ByteWriter& out, const Offered& offered) {
  out.write(offered.round);
  write_double(out, offered.weight);
  out.write(offered.bytes);
  out.write(static_cast<std::uint8_t>(offered.form));
  write_flag(out, offered.is_narrow);
  out.write_bytes(offered.digest);
}

}  // namespace

std::vector<std::byte> signed_bytes(const WorkerClaim& claim, std::uint32_t number,
                                    std::uint64_t joins) {
  ByteWriter out;
  write_claim(out, kMembershipContext, claim);
  out.write(number);
  out.write(joins);
  return out.take();
}

std::vector<std::byte> signed_bytes(const WorkerClaim& claim, const Offered& offered) {
  ByteWriter out;
  write_claim(out, kContributionContext, claim);
  write_unsigned(out, offered);
  return out.take();
}

bool has_key(const Join& join, const trust::PublicKey& key) {
  return std::ranges::find(join.signatures, key, &trust::KeySignature::key) !=
         join.signatures.end();
}

bool is_signed_alike(const WorkerClaim& claim, std::uint32_t number, const Join& join,
                     const Join& last) {
  const std::vector<std::byte> bytes = signed_bytes(claim, number, join.count);
  return std::ranges::any_of(join.signatures, [&](const trust::KeySignature& each) {
    return has_key(last, each.key) && trust::is_signature(each.signature, bytes, each.key);
  });
}

std::vector<std::byte> serialise(const Enroll& enroll) {
  ByteWriter out;
  out.write(enroll.protocol);
  write_text(out, enroll.model_id);
  write_hash(out, enroll.schema_hash);
  out.write(enroll.worker);
  out.write(enroll.silence_ms);
  write_text(out, enroll.name);
  write_flag(out, enroll.is_aggregator);
  out.write(enroll.number);
  return out.take();
}

Result<Enroll> parse_enroll(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Enroll other;
  if (reader.read(other.protocol) && other.protocol != kWorkerProtocol) return other;
  return parse_message<Enroll>(bytes, "ENROLL", [](ByteReader& in, Enroll& enroll) {
    return in.read(enroll.protocol) && read_text(in, enroll.model_id) &&
           read_hash(in, enroll.schema_hash) && in.read(enroll.worker) &&
           in.read(enroll.silence_ms) && read_text(in, enroll.name) &&
           read_flag(in, enroll.is_aggregator) && in.read(enroll.number) &&
           enroll.number <= aggregate::kMaxNumber;
  });
}

std::vector<std::byte> serialise(const Enrolled& enrolled) {
  ByteWriter out;
  out.write(enrolled.protocol);
  out.write(enrolled.round);
  out.write(enrolled.silence_ms);
  write_text(out, enrolled.name);
  write_text(out, enrolled.results);
  write_flag(out, enrolled.sums_at_once);
  write_flag(out, enrolled.sums_weights);
  out.write_bytes(enrolled.nonce);
  return out.take();
}

Result<Enrolled> parse_enrolled(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Enrolled other;
  if (reader.read(other.protocol) && other.protocol != kWorkerProtocol) return other;
  return parse_message<Enrolled>(bytes, "ENROLLED", [](ByteReader& in, Enrolled& enrolled) {
    return in.read(enrolled.protocol) && in.read(enrolled.round) && in.read(enrolled.silence_ms) &&
           read_text(in, enrolled.name) && read_text(in, enrolled.results) &&
           read_flag(in, enrolled.sums_at_once) && read_flag(in, enrolled.sums_weights) &&
           read_array(in, enrolled.nonce);
  });
}

std::vector<std::byte> serialise(const NonceTold& told) {
  ByteWriter out;
  out.write_bytes(told.nonce);
  return out.take();
}

Result<NonceTold> parse_nonce(std::span<const std::byte> bytes) {
  return parse_message<NonceTold>(
      bytes, "NONCE", [](ByteReader& in, NonceTold& told) { return read_array(in, told.nonce); });
}

std::vector<std::byte> serialise(const Join& join) {
  ByteWriter out;
  out.write(join.count);
  write_signatures(out, join.signatures);
  return out.take();
}

Result<Join> parse_join(std::span<const std::byte> bytes) {
  return parse_message<Join>(bytes, "JOIN", [](ByteReader& in, Join& join) {
    return in.read(join.count) && read_signatures(in, join.signatures);
  });
}

std::vector<std::byte> serialise(const Offered& offered) {
  ByteWriter out;
  write_unsigned(out, offered);
  write_signatures(out, offered.signatures);
  return out.take();
}

Result<Offered> parse_offered(std::span<const std::byte> bytes) {
  return parse_message<Offered>(bytes, "CONTRIBUTION", [](ByteReader& in, Offered& offered) {
    std::uint8_t form = 0;
    if (!in.read(offered.round) || !read_double(in, offered.weight) || !in.read(offered.bytes) ||
        !in.read(form) || form >= sparse::kValueForms || !read_flag(in, offered.is_narrow) ||
        !read_array(in, offered.digest) || !read_signatures(in, offered.signatures))
      return false;
    offered.form = static_cast<sparse::ValueForm>(form);
    return !offered.is_narrow || offered.form == sparse::ValueForm::kUnmodified;
  });
}

std::vector<std::byte> serialise(const Wanted& wanted) {
  ByteWriter out;
  out.write(wanted.round);
  return out.take();
}

Result<Wanted> parse_wanted(std::span<const std::byte> bytes) {
  return parse_message<Wanted>(
      bytes, "WANTED", [](ByteReader& in, Wanted& wanted) { return in.read(wanted.round); });
}

std::vector<std::byte> serialise(const FateTold& fate) {
  ByteWriter out;
  out.write(fate.round);
  out.write(static_cast<std::uint8_t>(fate.kind));
  out.write(fate.in_round);
  write_text(out, fate.reason);
  return out.take();
}

Result<FateTold> parse_fate(std::span<const std::byte> bytes) {
  return parse_message<FateTold>(bytes, "FATE", [](ByteReader& in, FateTold& fate) {
    std::uint8_t kind = 0;
    if (!in.read(fate.round) || !in.read(kind) ||
        kind > static_cast<std::uint8_t>(aggregate::Answer::Kind::kForgotten) ||
        !in.read(fate.in_round) || !read_text(in, fate.reason))
      return false;
    fate.kind = static_cast<aggregate::Answer::Kind>(kind);
    return true;
  });
}

}  // namespace sparcl::elastic
