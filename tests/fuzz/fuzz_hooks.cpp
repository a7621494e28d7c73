// A target under libFuzzer. SPARCL_FUZZ_SEEDS=FOLDER writes the seeds there, and for text a
// dictionary beside it, instead of a run.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_target.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace sparcl::fuzz {
namespace {

const Target& target() { return targets().front(); }

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const std::vector<Bytes> seeds = target().seeds();
  for (std::size_t i = 0; i < seeds.size(); ++i)
    write_file(folder / ("seed_" + std::to_string(i)), seeds[i]);
  if (target().words.empty()) return;
  std::ofstream words(folder.string() + ".dict");
  for (const std::string& word : target().words) {
    words << '"';
    for (const char each : word) {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(each);
      words << "\\x" << kDigits[byte >> 4] << kDigits[byte & 15];
    }
    words << "\"\n";
  }
}

#ifdef SPARCL_FUZZ_MUTATES
std::size_t mutate_bytes(std::byte* data, std::size_t bytes, std::size_t room) {
  return LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(data), bytes, room);
}
#endif

}  // namespace
}  // namespace sparcl::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("SPARCL_FUZZ_SEEDS")) {
    sparcl::fuzz::write_seeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sparcl::fuzz::target().run(std::as_bytes(std::span(data, size)));
  return 0;
}

#ifdef SPARCL_FUZZ_MUTATES
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using namespace sparcl::fuzz;
  const auto input = std::as_bytes(std::span(data, size));
  Random random(seed);
  const Bytes mutated = target().mutate({input.begin(), input.end()}, mutate_bytes, random);
  const std::size_t bytes = std::min(mutated.size(), max_size);
  if (bytes > 0) std::memcpy(data, mutated.data(), bytes);
  return bytes;
}
#endif
