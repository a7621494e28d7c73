#pragma once
// Inputs of the codec's benchmarks: two states of an array, and how they were made.

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

// The same with changes in clusters, by a chain of two states over the elements. Runs of the active
// state are `run` elements long on average, and a share `inside` of them changes; the other state
// has no changes. limits.blind has the chain's own entropy of the positions.
struct Clusters {
  double density;
  double inside;
  double run;
};
Input clustered_input(std::uint64_t elements, const Clusters& clusters);

// Masks of aligned blocks: each block is drawn independently, and in it a share `inside` changes.
// limits.blind as above.
Input block_input(std::uint64_t elements, std::uint64_t block, double density, double inside);

// Rounded fp32 masters, N(0, 0.02), that all make a step. An element changes with a probability of
// about step / ulp, so small elements change more often. The step is chosen to give `density`.
// bf16, fp16 or fp8.
enum class Steps : std::uint8_t {
  kNormal,   // N(0, step), as with optimizers whose steps differ from weight to weight
  kOneSize,  // step, up or down, as with signs, or with Adam in its first steps
};
Input masters_input(DataType type, std::uint64_t elements, double density,
                    Steps steps = Steps::kNormal);

// bf16 weights of which a share `density` gets random bits, so that the values cannot be predicted.
// 0: nothing changes.
Input random_input(std::uint64_t elements, double density);

// Other element types, with changes as by optimizers.
std::vector<std::string> typed_names();
Input typed_input(const std::string& name, std::uint64_t elements);

// Steps `step - 1` and `step` of a trace: all bf16 tensors of FOLDER/weights/step_NN.safetensors,
// end to end; no elements if they cannot be read. For trusted files.
Input trace_input(const std::string& folder, int step);

}  // namespace sparcl::bench
