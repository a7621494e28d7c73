#pragma once
// A stand-in for NCCL, by the names that sparcl asks it for, over the stand-in for the driver: its
// ranks are threads of this process, and sums happen in the streams, in a ring's order (the first
// rank of a sum changes from element to element), so that they are not the host's where rounding
// shows.

#include <string>

namespace sparcl::test {

// The next call of this name by any rank answers with this result; for "stream": what the comm of
// the rank finds out later.
void fail_nccl(const std::string& function, int rank, int result);
// A rank whose call of ncclCommInitRankConfig does not come to its end.
void hold_init(int rank);
// A rank whose calls go on on the host, and never end.
void hold_calls(int rank);
// A rank whose GPU comes to no collective any more.
void hold_collectives(int rank);
// As at the beginning.
void reset_nccl();
// Communicators that are neither destroyed nor aborted; and those that were aborted.
int nccl_comms_alive();
int nccl_aborts();
int nccl_calls(const std::string& function);
int nccl_open_groups();  // begun, and not ended

}  // namespace sparcl::test
