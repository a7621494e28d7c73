#pragma once
// The oracle's knowledge the other way round: for fuzzers, which would hardly ever guess a digest.

#include "tests/codec/oracle/oracle.hpp"

namespace sparcl::oracle {

struct MendableSection {
  unsigned tag;
  Bytes* content;  // without the crc, where the section has one: the caller's to mend
};

// Puts into the header what is right for the receiver's arrays, and into chunk ends and the end the
// digests, totals and hashes that are right for these blocks and this base. Stops at the first
// block that cannot be read.
void mend_update(const std::vector<MendableSection>& sections, const Receiver& receiver,
                 const std::vector<Bytes>& held);

// The same of a sparse vector.
void mend_sparse(const std::vector<MendableSection>& sections, std::uint8_t data_type);

}  // namespace sparcl::oracle
