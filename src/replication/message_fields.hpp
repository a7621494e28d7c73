#pragma once
// Fields that several messages share, and how a message is read: all of its bytes, or none.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "src/model/fields.hpp"
#include "src/replication/message.hpp"

namespace sparcl::replication {

using model::read_array;
using model::read_blob;
using model::read_flag;
using model::read_hash;
using model::read_text;
using model::write_blob;
using model::write_flag;
using model::write_hash;
using model::write_text;

// The fields must be all there is.
template <class Message, class Read>
Result<Message> parse_message(std::span<const std::byte> bytes, const char* what, Read&& read) {
  ByteReader reader(bytes);
  Message message;
  if (read(reader, message) && reader.remaining() == 0) return message;
  return Status(Code::kCorrupt, fmt::format("{} of {} bytes is none", what, bytes.size()));
}

inline void write_name(ByteWriter& out, const UpdateName& name) {
  out.write(name.base_version);
  out.write(name.version);
}

inline bool read_name(ByteReader& bytes, UpdateName& name) {
  return bytes.read(name.base_version) && bytes.read(name.version);
}

inline void write_held(ByteWriter& out, const HeldVersion& held) {
  out.write(held.version);
  write_hash(out, held.hash);
}

inline bool read_held(ByteReader& bytes, HeldVersion& held) {
  return bytes.read(held.version) && read_hash(bytes, held.hash);
}

inline void write_signatures(ByteWriter& out, const trust::Signatures& signatures) {
  out.write(static_cast<std::uint8_t>(signatures.size()));
  for (const trust::KeySignature& each : signatures) {
    out.write_bytes(each.key);
    out.write_bytes(each.signature);
  }
}

inline bool read_signatures(ByteReader& bytes, trust::Signatures& signatures) {
  std::uint8_t count = 0;
  if (!bytes.read(count) || count > trust::kMaxSignatures) return false;
  signatures.resize(count);
  return std::ranges::all_of(signatures, [&](trust::KeySignature& each) {
    return read_array(bytes, each.key) && read_array(bytes, each.signature);
  });
}

inline void write_offer(ByteWriter& out, const Offer& offer) {
  out.write_bytes(serialise(offer.commit));
  write_signatures(out, offer.signatures);
}

inline bool read_offer(ByteReader& bytes, Offer& offer) {
  return read_commit(bytes, offer.commit) && read_signatures(bytes, offer.signatures);
}

inline bool read_code(ByteReader& bytes, Code& code) {
  std::uint32_t number = 0;
  if (!bytes.read(number) || !is_code(static_cast<int>(number)) || number == 0) return false;
  code = static_cast<Code>(number);
  return true;
}

}  // namespace sparcl::replication
