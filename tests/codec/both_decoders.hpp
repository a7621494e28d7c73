#pragma once
// The codec's decoder and the oracle (tests/codec/oracle) on the same stream: both accept it or
// both refuse it, and what they make of it is the same.

#include <fmt/format.h>

#include <optional>
#include <string>

#include "src/codec/sparse_vector.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/oracle/oracle.hpp"

namespace sparcl::codec {

struct DecoderSetup {
  Verify verify = Verify::kTouched;
  Writing writing = Writing::kStaged;
  const kernels::KernelSet* kernels = &kernels::cpu_kernels();
  std::uint64_t piece_bytes = 100000;  // as which the stream arrives
};

struct Decoded {
  Status status;
  State state;  // what is held afterwards
};

// By the codec.
inline Decoded run_decoder(std::span<const std::byte> stream, const State& held,
                           const Hash128& schema, const DecoderSetup& setup) {
  Decoded decoded{{}, held};
  const BlockMap map = held.map();
  const auto arrays = decoded.state.write();
  const Staging& staging = staged(stream);
  UpdateDecoder decoder(map, arrays, setup.verify, schema, *setup.kernels, setup.writing);
  decoded.status = check_stream(decoder, staging, stream.size(), setup.piece_bytes);
  if (decoded.status.ok()) decoded.status = decoder.apply(staging);
  return decoded;
}

inline oracle::UpdateOutcome run_oracle(std::span<const std::byte> stream, const State& held,
                                        const Hash128& schema, Verify verify) {
  oracle::Receiver receiver{{}, {schema.low, schema.high}, static_cast<oracle::Check>(verify)};
  for (const ArraySpec& spec : held.specs)
    receiver.arrays.push_back({static_cast<std::uint8_t>(spec.datatype), spec.count});
  return oracle::decode_update(stream, receiver, held.arrays);
}

inline Code code_of(oracle::Finding finding) {
  switch (finding) {
    case oracle::Finding::kAccepted:
      return Code::kSuccess;
    case oracle::Finding::kCorrupt:
      return Code::kCorrupt;
    case oracle::Finding::kMismatch:
      return Code::kMismatch;
    case oracle::Finding::kUnsupported:
      return Code::kUnsupported;
    case oracle::Finding::kWrongBase:
      return Code::kWrongBase;
  }
  return Code::kInternalError;
}

// The codec reads a stream as it arrives and stops at the first error; the oracle looks at the
// whole frame first, then at the header, the blocks, the base. So where the oracle names a later
// error, all before was right and the codec must name it, too; where it says Corrupt, the codec may
// have met another error before.
inline bool same_refusal(Code codec, Code oracle) {
  if (codec == oracle) return true;
  return oracle == Code::kCorrupt &&
         (codec == Code::kWrongBase || codec == Code::kMismatch || codec == Code::kUnsupported);
}

// What the two differ in; nothing if they do not. `decoded`: by run_decoder.
inline std::optional<std::string> difference(const Decoded& decoded, const State& held,
                                             const oracle::UpdateOutcome& outcome) {
  const Code expected = code_of(outcome.finding);
  if (decoded.status.ok() != (expected == Code::kSuccess) ||
      !same_refusal(decoded.status.code(), expected)) {
    return fmt::format("codec: {} ({}); oracle: {} ({})", code_name(decoded.status.code()),
                       decoded.status.message(), code_name(expected), outcome.reason);
  }
  if (!decoded.status.ok()) {
    return decoded.state.arrays == held.arrays
               ? std::nullopt
               : std::optional<std::string>("the codec wrote though it refused");
  }
  return decoded.state.arrays == outcome.arrays
             ? std::nullopt
             : std::optional<std::string>("the new states differ");
}

struct DecodedSparse {
  Status status;
  std::vector<std::uint64_t> indices;
  Array values;
};

inline DecodedSparse run_sparse_decoder(std::span<const std::byte> stream, DataType datatype,
                                        const kernels::KernelSet& kernels = kernels::cpu_kernels(),
                                        std::uint64_t piece_bytes = 100000) {
  DecodedSparse decoded;
  const Staging& staging = staged(stream);
  SparseDecoder decoder(datatype, kernels);
  for (std::uint64_t available = 0; decoded.status.ok() && available < stream.size();) {
    available = std::min<std::uint64_t>(available + piece_bytes, stream.size());
    for (bool more = true; more && decoded.status.ok();)
      decoded.status = decoder.advance(staging, available, 3, more);
  }
  if (decoded.status.ok()) decoded.status = decoder.finish(stream.size());
  if (!decoded.status.ok()) return decoded;
  decoded.indices.resize(decoder.nnz());
  decoded.values.resize(decoder.nnz() * element_bytes(datatype));
  decoded.status = decoder.extract(staging, decoded.indices.data(), decoded.values.data());
  return decoded;
}

inline std::optional<std::string> difference(const DecodedSparse& decoded,
                                             const oracle::SparseOutcome& outcome) {
  const Code expected = code_of(outcome.finding);
  if (decoded.status.ok() != (expected == Code::kSuccess) ||
      !same_refusal(decoded.status.code(), expected)) {
    return fmt::format("codec: {} ({}); oracle: {} ({})", code_name(decoded.status.code()),
                       decoded.status.message(), code_name(expected), outcome.reason);
  }
  const bool same = !decoded.status.ok() ||
                    (decoded.indices == outcome.indices && decoded.values == outcome.values);
  return same ? std::nullopt : std::optional<std::string>("the vectors differ");
}

}  // namespace sparcl::codec
