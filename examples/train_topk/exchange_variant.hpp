#pragma once
// The ways in which gradients are exchanged, as the command line names them:
// METHOD[:DENSITY][:forget].

#include <string>
#include <vector>

namespace training {

enum class Method {
  kDense,  // all elements, through sparcl
  kMpi,    // all elements, through MPI_Allreduce
  kTopK,   // the largest elements of each rank
  kMask    // random elements, the same on all ranks, drawn anew for each step
};

struct Variant {
  Method method = Method::kDense;
  double density = 1;  // the share of elements that a rank selects
  bool has_feedback =
      false;  // what is not sent is added to the next gradient; else it is forgotten

  std::string name() const;
};

// dense, mpi, topk:0.01, topk:0.01:forget, mask:0.01, mask:0.01:forget. Throws
// std::invalid_argument.
Variant parse_variant(const std::string& text);

// What the program compares if nothing else is asked for.
std::vector<Variant> default_variants();

}  // namespace training
