#pragma once
// How the oracle's parts say that a stream is refused: by throwing, so that the code that reads
// stays straight. decode_update and decode_sparse catch it.

#include <string>

#include "tests/codec/oracle/oracle.hpp"

namespace sparcl::oracle {

struct Refusal {
  Finding finding;
  std::string reason;
};

inline void refuse_if(bool bad, const char* reason, Finding finding = Finding::kCorrupt) {
  if (bad) throw Refusal{finding, reason};
}

}  // namespace sparcl::oracle
