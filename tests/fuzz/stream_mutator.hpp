#pragma once
// Changes streams as one who knows the format does: inside sections, of sections, with checksums
// that are right again.

#include <functional>

#include "tests/codec/stream_surgery.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {

// Makes totals, digests and hashes right for what the stream's blocks say, as far as they can be
// read.
using Mender = std::function<void(codec::RawStream& stream)>;

// As much of a stream as can be taken apart; the rest is dropped.
codec::RawStream take_apart_leniently(std::span<const std::byte> bytes);

Bytes mutate_stream(std::span<const std::byte> stream, ByteMutation mutate_bytes, Random& random,
                    const Mender& mend);

// For targets whose inputs are `head_bytes` choices and a stream.
Bytes mutate_behind_head(
    const Bytes& input, std::size_t head_bytes, Random& random,
    const std::function<Bytes(std::span<const std::byte> stream)>& mutate_rest);

// Some bytes changed wherever they lie.
Bytes mutate_plainly(std::span<const std::byte> bytes, ByteMutation mutate_bytes);

}  // namespace sparcl::fuzz
