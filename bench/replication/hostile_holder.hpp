#pragma once
// A holder of the secret of role replicate that costs its publisher as much as the protocol lets
// it: for bench_publish.

#include <atomic>
#include <cstdint>
#include <string>

namespace sparcl::bench {

struct HostileOptions {
  std::string address;
  std::string secret_path;  // "": in the clear
  int anchors = 0;          // connections that ask for all bytes again and again
  int parts = 0;  // connections of replicas of different parts, nearly the whole model each
  std::uint64_t rows = 0;  // of the model's one tensor, of kRowElements columns
};
constexpr std::uint64_t kRowElements = 1024;
constexpr const char* kTensorName = "weights";

// Until the process is ended.
void attack(const HostileOptions& options);

}  // namespace sparcl::bench
