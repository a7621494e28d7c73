#pragma once
// Inputs of the codec's benchmarks: two states of an array and what is known of how they came
// about.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/codec/entropy_limits.hpp"
#include "bench/codec/huge_buffer.hpp"
#include "src/base/data_type.hpp"

namespace sparcl::bench {

struct Input {
  std::string kind;  // "iid", "clusters", ...: rows of one kind make a curve
  std::string name;
  DataType type = DataType::kBfloat16;
  std::uint64_t elements = 0;
  bool fresh = false;  // sent without a base
  HugeBuffer base;
  HugeBuffer target;
  Limits limits;

  std::size_t bytes() const { return static_cast<std::size_t>(elements) * element_bytes(type); }
  double density() const {
    return static_cast<double>(limits.changed) / static_cast<double>(elements);
  }
};

// bf16 weights; a share `density` changes, each independently, by the step sizes of a real
// fine-tuning.
Input iid_input(std::uint64_t elements, double density);

// The same with changes in clusters: a chain of two states walks over the elements, `run` elements
// long on average in the active one, where a share `inside` changes; nothing does in the other.
// limits.blind has the chain's own entropy for the places.
struct Clusters {
  double density;
  double inside;
  double run;
};
Input clustered_input(std::uint64_t elements, const Clusters& clusters);

// Masks of aligned blocks: each block is drawn independently, and in it a share `inside` changes.
// limits.blind as above.
Input block_input(std::uint64_t elements, std::uint64_t block, double density, double inside);

// What rounding makes of masters in fp32, N(0, 0.02), that all make a step: an element changes with
// a probability of about step / ulp, so small ones do more often. The step is sought that gives
// `density`. bf16, fp16 or fp8.
enum class Steps : std::uint8_t {
  kNormal,   // N(0, step), as of optimizers whose steps differ from weight to weight
  kOneSize,  // step, up or down, as of signs, or of Adam in its first steps
};
Input masters_input(DataType type, std::uint64_t elements, double density,
                    Steps steps = Steps::kNormal);

// bf16 weights of which a share `density` gets random bits: nothing can be known of the values. 0:
// nothing changes.
Input random_input(std::uint64_t elements, double density);

// Other element types, and what optimizers do to theirs.
std::vector<std::string> typed_names();
Input typed_input(const std::string& name, std::uint64_t elements);

// Steps `step - 1` and `step` of a trace: all bf16 tensors of FOLDER/weights/step_NN.safetensors,
// end to end; no elements if they cannot be read. For files that we trust.
Input trace_input(const std::string& folder, int step);

}  // namespace sparcl::bench
