#pragma once
// States, changes and streams for the codec's tests.

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "src/codec/update.hpp"

namespace sparcl::codec {

// A sink whose bytes can be damaged before they are staged.
class VectorSink : public ByteSink {
 public:
  std::byte* reserve(std::size_t bytes) override {
    bytes_.resize(used_ + bytes);
    return bytes_.data() + used_;
  }
  void commit(std::size_t used) override {
    used_ += used;
    bytes_.resize(used_);
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;
};

// One for all: segments of 4 MiB are dear where each test takes thousands. Overwritten by the next
// call.
inline const Staging& staged(std::span<const std::byte> bytes) {
  static Staging staging;
  staging.write(0, bytes);
  return staging;
}

using Array = std::vector<std::byte>;

struct State {
  std::vector<ArraySpec> specs;
  std::vector<Array> arrays;

  BlockMap map() const { return BlockMap(specs); }
  std::vector<const std::byte*> read() const {
    std::vector<const std::byte*> pointers;
    for (const Array& array : arrays) pointers.push_back(array.data());
    return pointers;
  }
  std::vector<std::byte*> write() {
    std::vector<std::byte*> pointers;
    for (Array& array : arrays) pointers.push_back(array.data());
    return pointers;
  }
};

inline State random_state(std::vector<ArraySpec> specs, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  State state{std::move(specs), {}};
  for (const ArraySpec& spec : state.specs) {
    Array& array = state.arrays.emplace_back(spec.count * element_bytes(spec.datatype));
    for (std::byte& byte : array) byte = static_cast<std::byte>(random());
  }
  return state;
}

enum class Change { kUlp, kRandom };

// Changes each element with probability `density`: by a few units in the last place, or to
// anything.
inline State changed_state(const State& base, double density, Change change, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  State state = base;
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    const std::size_t width = element_bytes(state.specs[i].datatype);
    for (std::uint64_t j = 0; j < state.specs[i].count; ++j) {
      if (density < 1 && uniform(random) >= density) continue;
      std::byte* at = state.arrays[i].data() + j * width;
      std::uint64_t value = 0;
      std::memcpy(&value, at, width);
      const std::uint64_t size = uniform(random) < 0.9 ? 1 : random() % 7 + 1;
      value = change == Change::kRandom ? random() : value + (random() % 2 ? size : 0 - size);
      std::memcpy(at, &value, width);
    }
  }
  return state;
}

struct Encoded {
  std::vector<std::byte> bytes;
  EncodeStats stats;
  Status status;
};

inline Encoded encode(const State& base, const State& target, const EncodeOptions& options = {},
                      const kernels::KernelSet& kernels = kernels::cpu_kernels(),
                      std::uint64_t budget = std::uint64_t{1} << 20) {
  const BlockMap map = target.map();
  const auto base_arrays = base.read();
  const auto target_arrays = target.read();
  UpdateEncoder encoder(map, base_arrays, target_arrays, options, kernels);
  VectorSink sink;
  Encoded encoded;
  while (encoded.status.ok() && !encoder.finished()) encoded.status = encoder.step(budget, sink);
  encoded.stats = encoder.stats();
  encoded.bytes = sink.bytes();
  return encoded;
}

// Feeds a stream to a decoder in pieces, and finishes.
inline Status check_stream(UpdateDecoder& decoder, const Staging& staging, std::uint64_t bytes,
                           std::uint64_t piece = 100000, std::uint64_t budget = 3) {
  for (std::uint64_t available = 0;;) {
    available = available + piece < bytes ? available + piece : bytes;
    for (bool more = true; more;)
      SPARCL_RETURN_IF_ERROR(decoder.advance(staging, available, budget, more));
    if (available == bytes) return decoder.finish(bytes);
  }
}

// Checks and applies a stream to `held`.
inline Status decode(std::span<const std::byte> stream, State& held, Verify verify,
                     const Hash128& schema = {},
                     const kernels::KernelSet& kernels = kernels::cpu_kernels(),
                     std::uint64_t piece = 100000) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(stream);
  UpdateDecoder decoder(map, arrays, verify, schema, kernels);
  SPARCL_RETURN_IF_ERROR(check_stream(decoder, staging, stream.size(), piece));
  return decoder.apply(staging);
}

// The reference, and the body of each instruction set that is here.
inline std::vector<const kernels::KernelSet*> kernel_sets() {
  std::vector<const kernels::KernelSet*> sets{&kernels::reference_kernels()};
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) sets.push_back(&set);
  return sets;
}

inline EncodeOptions with_hash(const BlockMode* mode = nullptr) {
  EncodeOptions options;
  options.with_state_hash = true;
  options.mode = mode;
  return options;
}

}  // namespace sparcl::codec
