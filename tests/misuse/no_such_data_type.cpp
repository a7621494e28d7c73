// says: sparcl has no data type for this C++ type
#include <vector>

#include "sparcl/sparcl.hpp"

#ifdef MISUSE
using Element = long double;
#else
using Element = double;
#endif

int main() {
  std::vector<Element> weights(8);
  sparcl::Comm().broadcast_delta(weights, {}, 0);
}
