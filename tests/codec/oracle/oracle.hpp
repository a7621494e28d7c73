#pragma once
// A second decoder, written from docs/reference/wire-format.md alone and sharing no code with
// src/codec: the oracle that the real one is held against. It takes whole streams, does one thing
// after the other, and is slow.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sparcl::oracle {

using Bytes = std::vector<std::byte>;

enum class Finding : std::uint8_t { kAccepted, kCorrupt, kMismatch, kUnsupported, kWrongBase };

struct ArraySpec {
  std::uint8_t data_type = 0;  // as in sparcl.h
  std::uint64_t elements = 0;
};

struct Hash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash&, const Hash&) = default;
};

// What of the base is checked: nothing, what the update touches, all of it.
enum class Check : std::uint8_t { kOff, kTouched, kFull };

struct Receiver {
  std::vector<ArraySpec> arrays;
  Hash schema;
  Check check = Check::kTouched;
};

struct UpdateOutcome {
  Finding finding = Finding::kAccepted;
  std::string reason;         // of a refusal
  std::vector<Bytes> arrays;  // the new state, where the update is accepted
};

UpdateOutcome decode_update(std::span<const std::byte> stream, const Receiver& receiver,
                            const std::vector<Bytes>& held);

struct SparseOutcome {
  Finding finding = Finding::kAccepted;
  std::string reason;
  std::vector<std::uint64_t> indices;
  Bytes values;
};

SparseOutcome decode_sparse(std::span<const std::byte> stream, std::uint8_t data_type);

}  // namespace sparcl::oracle
