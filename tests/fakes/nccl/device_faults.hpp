#pragma once

namespace sparcl::test {

// The n-th scatter from now on, and those after it, cannot be launched; -1: all can.
void fail_scatters_from(int scatter);

}  // namespace sparcl::test
