#pragma once
// What a fuzz target is: a function of bytes that breaks off where a promise does not hold, and
// inputs to begin with. One file a target. The same files run under libFuzzer (fuzz_hooks.cpp) and,
// with seeded mutations, as tests (fuzz_test.cpp).

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace sparcl::fuzz {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

// Changes a few bytes of data[0, bytes), of which there is room for `room`, and returns how many
// there are now.
using ByteMutation = std::size_t (*)(std::byte* data, std::size_t bytes, std::size_t room);

struct Target {
  std::string name;
  void (*run)(std::span<const std::byte> input);
  std::vector<Bytes> (*seeds)();
  // Knows the format, so that more than the checksums is reached; nullptr: bytes are changed as
  // they come.
  Bytes (*mutate)(const Bytes& input, ByteMutation bytes, Random& random) = nullptr;
  std::vector<std::string> words = {};  // of the format, for inputs that are text
};

// All targets that are linked: each file has one.
std::vector<Target>& targets();

struct Registration {
  explicit Registration(Target target) { targets().push_back(std::move(target)); }
};

// Breaks off, with the reason, so that both drivers keep the input.
void require(bool holds, const std::string& promise);

// What a target decides by, from the front of an input: 0 where there is no more.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> input) : left_(input) {}
  unsigned below(unsigned limit) {
    if (left_.empty()) return 0;
    const unsigned byte = std::to_integer<unsigned>(left_[0]);
    left_ = left_.subspan(1);
    return byte % limit;
  }
  std::span<const std::byte> rest() const { return left_; }

 private:
  std::span<const std::byte> left_;
};

inline Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sparcl::fuzz
