#pragma once
// Alpha and beta in, seconds out (Hockney 1994). Used by the tables of algorithms only. All ranks
// must choose alike, so a prediction may depend only on what all ranks know before the call.

#include <cstdint>

#include "src/codec/update.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::comm {

// Of messages between ranks that all exchange at once, on the cores that they have.
struct LinkCost {
  double alpha_s = 1e-6;           // a message more
  double beta_s_per_byte = 2e-10;  // a byte
  double round_s = 10e-6;          // until a rank has seen what came, and answers
  double entry_s = 3e-9;           // gamma: an entry of a sparse vector that is summed

  // Whether a byte takes longer than work that saves one: from there on entries are coded, 2.5 to 4
  // ns each of both ends together (bench_sparse_sum), and pieces are small, so that work and travel
  // overlap. Heuristic.
  bool is_slow() const { return beta_s_per_byte > 3e-9; }
};

// A guess by what the transport says of itself, where links are not measured
// (start/link_measurement.hpp).
LinkCost link_cost(const transport::Transport& transport);

// As the codec wants to know it. gbit_per_s: of the links, as far as somebody has said; 0: by
// link_cost(). Only the sender asks.
codec::LinkTime link_time(const transport::Transport& transport, double gbit_per_s);

// Bytes that an update of so many dense bytes is guessed to take on the wire: 1 % of 16-bit
// elements changed, 10 bits a change, and never less than a header. Heuristic: only the choice of
// fan-out and fragment size hangs on it.
std::uint64_t guess_update_bytes(std::uint64_t dense_bytes);

// A stream cut into fragments, passed on by `degree` sends a rank along `depth` ranks: the last
// byte reaches the last rank after that long.
double pipeline_seconds(const LinkCost& link, std::uint64_t bytes, std::uint64_t fragment_bytes,
                        int degree, int depth);

}  // namespace sparcl::comm
