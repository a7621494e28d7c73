#pragma once
// Small updates of every shape, for targets that read updates: tens of elements, so that a target
// is quick.

#include "tests/codec/both_decoders.hpp"
#include "tests/fuzz/stream_mutator.hpp"

namespace sparcl::fuzz {

constexpr Hash128 kTinySchema{0x1111, 0x2222};

struct TinyUpdate {
  codec::State base;
  codec::State target;
  codec::State other;  // neither
  std::vector<codec::Bytes>
      streams;  // from base to target, in several modes, with and without hashes
};

// Made once.
const std::vector<TinyUpdate>& tiny_updates();

// Makes the checks of an update right, as one would who sends it to this receiver.
void mend_for(codec::RawStream& stream, const oracle::Receiver& receiver,
              const std::vector<codec::Bytes>& held);

// The same for those who hold a state with the tiny updates' schema.
void mend_update(codec::RawStream& stream, const codec::State& held);

}  // namespace sparcl::fuzz
