#pragma once
// Inputs of the codec's benchmarks: changes strewn independently with the step sizes of a real fine-tuning, and traces of one.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sparcl::bench {

// Bytes on huge pages where the system gives them: what a training's allocator does with tensors of this size.
class HugeBuffer {
 public:
  explicit HugeBuffer(std::size_t bytes);
  ~HugeBuffer();
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

struct Limit {
  std::uint64_t changed = 0;
  double position_bits = 0;  // a change, entropy of independent positions
  double value_bits = 0;     // a change, entropy of the steps as they came
};

// Fills `base` with `count` bf16 weights, and `target` with the same but for a share `density` of them.
Limit fill_iid(std::uint16_t* base, std::uint16_t* target, std::uint64_t count, double density, std::uint64_t seed);

// The same with changes in clusters: a chain of two states walks over the elements, `run` elements long on average in the active
// one, where a share `inside` changes; nothing does in the other. position_bits is the chain's own entropy.
struct Clusters {
  double density;
  double inside;
  double run;
};
Limit fill_clustered(std::uint16_t* base, std::uint16_t* target, std::uint64_t count, const Clusters& clusters, std::uint64_t seed);

// All bf16 tensors of a .safetensors file, end to end; empty if it cannot be read. For files that we trust.
std::vector<std::uint16_t> read_bf16(const std::string& path);

Limit limit_of(const std::uint16_t* base, const std::uint16_t* target, std::uint64_t count);

}  // namespace sparcl::bench
