#pragma once
// The variants of gradient exchange, as the command line names them: METHOD[:DENSITY][:forget].

#include <string>
#include <vector>

namespace training {

enum class Method {
  kDense,  // all elements, through sparcl
  kMpi,    // all elements, through MPI_Allreduce
  kTopK,   // the largest elements of each rank
  kMask    // random elements, the same on all ranks, redrawn for each step
};

struct Variant {
  Method method = Method::kDense;
  double density = 1;  // the share of elements that a rank selects
  bool has_feedback =
      false;  // true: unsent values are added to the next gradient; false: they are lost

  std::string name() const;
};

// dense, mpi, topk:0.01, topk:0.01:forget, mask:0.01, mask:0.01:forget. Throws
// std::invalid_argument.
Variant parse_variant(const std::string& text);

// The variants that the program compares by default.
std::vector<Variant> default_variants();

}  // namespace training
