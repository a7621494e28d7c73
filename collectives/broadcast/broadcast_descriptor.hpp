#pragma once
// The three sparse broadcasts, as texts name them.

#include "collectives/collective.hpp"

namespace sparcl::collectives::broadcast {

extern const CollectiveDescriptor kBroadcastDelta, kBroadcastUpdate, kBroadcastSparse;

}  // namespace sparcl::collectives::broadcast
