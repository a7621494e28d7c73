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

constexpr std::string_view kContributionContext = "sparcl contribution 1\n";

void write_unsigned(ByteWriter& out, const Offered& offered) {
  out.write(offered.round);
  write_double(out, offered.weight);
  out.write(offered.bytes);
  out.write(static_cast<std::uint8_t>(offered.form));
  write_flag(out, offered.is_narrow);
  out.write_bytes(offered.digest);
}

}  // namespace

void write_keys(ByteWriter& out, std::span<const trust::PublicKey> keys) {
  out.write(static_cast<std::uint8_t>(keys.size()));
  for (const trust::PublicKey& each : keys) out.write_bytes(each);
}

bool read_keys(ByteReader& in, std::vector<trust::PublicKey>& keys) {
  std::uint8_t count = 0;
  if (!in.read(count) || count > trust::kMaxSignatures) return false;
  keys.resize(count);
  return std::ranges::all_of(keys, [&in](trust::PublicKey& each) { return read_array(in, each); });
}

std::vector<std::byte> signed_bytes(const ContributionClaim& claim) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kContributionContext)));
  out.write_bytes(claim.nonce);
  write_text(out, claim.model_id);
  write_hash(out, claim.schema_hash);
  out.write(claim.worker);
  write_unsigned(out, claim.offered);
  return out.take();
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
  write_keys(out, enroll.keys);
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
           enroll.number <= aggregate::kMaxNumber && read_keys(in, enroll.keys);
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
