#pragma once
// Whether a root sends its arrays as they are, without looking for changes.

#include "collectives/broadcast/broadcast.hpp"

namespace sparcl::collectives::broadcast {

// Instead of a fan-out's name: the arrays as they are, wherever that is possible.
constexpr const char* kDenseName = "dense";
constexpr std::uint8_t kDense = 253;

// By a sample of the root's arrays, a few hundred cache lines of each.
bool sends_dense(const UpdateCall& call, const CommContext& comm);

}  // namespace sparcl::collectives::broadcast
