#pragma once
// All collectives that there are: a new one adds its descriptor here.

#include "src/comm/engine/collective_descriptor.hpp"

namespace sparcl::collectives {

comm::CollectiveTable collective_table();

}  // namespace sparcl::collectives
