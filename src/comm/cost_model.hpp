#pragma once
// The cost model: alpha and beta in, seconds out (Hockney 1994). Only the tables of algorithms use
// it. All ranks must choose alike, so a prediction may depend only on values that all ranks know
// before the call.

#include <cstdint>

#include "src/codec/update.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::comm {

// The cost of messages between ranks that all exchange at once, on the cores that they have.
struct LinkCost {
  double alpha_s = 1e-6;           // a further message
  double beta_s_per_byte = 2e-10;  // one byte
  double round_s = 10e-6;          // until a rank has seen a message, and answers
  double entry_s = 3e-9;           // gamma: one summed entry of a sparse vector

  // Whether the link is slow, so that work that saves a byte is faster than sending it. Entries are
  // then coded, which takes 2.5 to 4 ns each at both ends together (bench_sparse_sum). Pieces are
  // small, so that work and sending overlap. Heuristic.
  bool is_slow() const { return beta_s_per_byte > 3e-9; }
};

// An estimate from the transport's capabilities, used if links are not measured
// (start/link_measurement.hpp).
LinkCost link_cost(const transport::Transport& transport);

// The link's cost in the codec's terms. gbit_per_s: of the links, if it is known; 0: by
// link_cost(). Only the sender asks.
codec::LinkTime link_time(const transport::Transport& transport, double gbit_per_s);

// Estimated bytes on the wire of an update of `dense_bytes`: 1 % of 16-bit elements changed, 10
// bits a change, and at least a header. Heuristic: only the choice of fan-out and fragment size
// depends on it.
std::uint64_t guess_update_bytes(std::uint64_t dense_bytes);

// The seconds until the last byte reaches the last rank. The stream is cut into fragments, and each
// rank sends to `degree` ranks, over `depth` levels.
double pipeline_seconds(const LinkCost& link, std::uint64_t bytes, std::uint64_t fragment_bytes,
                        int degree, int depth);

}  // namespace sparcl::comm
