#pragma once
// The messages between workers and aggregators: the layouts of docs/reference/protocol.md.
// They travel in the frames of the replication service. Bytes from the network are hostile.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/aggregate/round/round.hpp"
#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/model/stream_digest.hpp"
#include "src/replication/message.hpp"
#include "src/sparse/parts/value_form.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::elastic {

constexpr std::uint16_t kWorkerProtocol = 3;

// Of a root's process, random: what is signed for it counts nowhere else.
using RootNonce = std::array<std::byte, 32>;

// Worker, or a branch (an aggregator that has a parent): who it is, before anything else.
struct Enroll {
  std::uint16_t protocol = kWorkerProtocol;
  std::string model_id;
  Hash128 schema_hash;
  aggregate::WorkerId worker = 0;  // chosen by the worker, and kept when it connects again
  std::uint32_t silence_ms = 0;    // after which it gives the other side up
  std::string name;                // "host h1, pid 4711"
  bool is_aggregator = false;
  std::uint32_t number = 0;  // of the worker, from 1 on; 0: none (aggregate::Seat)
};

// Aggregator, to a worker that enrolls.
struct NonceTold {
  RootNonce nonce{};
};

// Aggregator: it takes part. A worker hears it after JOIN.
struct Enrolled {
  std::uint16_t protocol = kWorkerProtocol;
  std::uint64_t round = 0;  // that is open
  std::uint32_t silence_ms = 0;
  std::string name;
  std::string results;  // "HOST:PORT" of the publisher of results; without a host: the same host
  // How a branch sums: as contributions come, or once their factors are known; and with
  // their weights at each element.
  bool sums_at_once = true;
  bool sums_weights = false;
  RootNonce nonce{};  // for branches, which tell it their workers
};

// Worker: it takes part.
struct Join {
  std::uint64_t count = 0;         // of the worker's JOINs: none counts twice, whoever repeats it
  trust::Signatures signatures{};  // of signed_bytes(); empty: it has no key
};

// Worker: a contribution, before its bytes.
struct Offered {
  std::uint64_t round = 0;
  double weight = 1;
  std::uint64_t bytes = 0;
  sparse::ValueForm form = sparse::ValueForm::kUnmodified;
  bool is_narrow = false;          // the values are bfloat16, else float32
  model::Digest256 digest{};       // digest_of() the bytes
  trust::Signatures signatures{};  // of signed_bytes(); empty: it is not signed
};

// Aggregator: the bytes are wanted now.
struct Wanted {
  std::uint64_t round = 0;
};

// Aggregator: the state of a contribution.
struct FateTold {
  std::uint64_t round = 0;
  aggregate::Answer::Kind kind = aggregate::Answer::Kind::kListed;
  std::uint64_t in_round = 0;
  std::string reason;  // of a refusal
};

// What a worker signs: that it takes part, and each contribution. The bytes begin with what they
// are for.
struct WorkerClaim {
  const RootNonce& nonce;
  const std::string& model_id;
  const Hash128& schema_hash;
  aggregate::WorkerId worker = 0;
};
std::vector<std::byte> signed_bytes(const WorkerClaim& claim, std::uint32_t number,
                                    std::uint64_t joins);
std::vector<std::byte> signed_bytes(const WorkerClaim& claim, const Offered& offered);

bool has_key(const Join& join, const trust::PublicKey& key);
// One of the keys that have signed `last` has signed `join`.
bool is_signed_alike(const WorkerClaim& claim, std::uint32_t number, const Join& join,
                     const Join& last);

std::vector<std::byte> serialise(const Enroll& enroll);
std::vector<std::byte> serialise(const Enrolled& enrolled);
std::vector<std::byte> serialise(const NonceTold& told);
std::vector<std::byte> serialise(const Join& join);
std::vector<std::byte> serialise(const Offered& offered);
std::vector<std::byte> serialise(const Wanted& wanted);
std::vector<std::byte> serialise(const FateTold& fate);

// Each an error (Corrupt) unless the bytes are a whole message of this type and nothing else. Of an
// ENROLL or ENROLLED with another protocol version only `protocol` is read.
Result<Enroll> parse_enroll(std::span<const std::byte> bytes);
Result<Enrolled> parse_enrolled(std::span<const std::byte> bytes);
Result<NonceTold> parse_nonce(std::span<const std::byte> bytes);
Result<Join> parse_join(std::span<const std::byte> bytes);
Result<Offered> parse_offered(std::span<const std::byte> bytes);
Result<Wanted> parse_wanted(std::span<const std::byte> bytes);
Result<FateTold> parse_fate(std::span<const std::byte> bytes);

}  // namespace sparcl::elastic
