#pragma once
// The mask behind the handle.

#include "collectives/mask/mask.hpp"
#include "sparcl/sparcl.h"

struct sparclMask {
  sparcl::collectives::Mask mask;
  int calls_in_flight = 0;
};
