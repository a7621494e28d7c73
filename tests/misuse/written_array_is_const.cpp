// says: this call writes the array: give one whose elements are not const
#include <vector>

#include "sparcl/sparcl.hpp"

#ifdef MISUSE
using Received = const std::vector<float>;
#else
using Received = std::vector<float>;
#endif

int main() {
  const std::vector<float> sent(8);
  Received received(8);
  sparcl::Comm().all_reduce_top_k(sent, received, 2, nullptr);
}
