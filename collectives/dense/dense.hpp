#pragma once
// All-reduce of equally many elements from every rank. An algorithm is a file with two functions
// and a row in the table (dense.cpp). Costs: P ranks, B bytes of values, alpha a message, beta a
// byte, gamma a combined byte.

#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/collective.hpp"
#include "src/sparse/parts/rank_tree.hpp"

namespace sparcl::collectives::dense {

// A rank's values. Each is packed once; the reduced value is unpacked once afterwards.
class DenseValues {
 public:
  virtual ~DenseValues() = default;
  virtual void pack(std::uint64_t first, std::uint64_t count, std::byte* into) const = 0;
  virtual void unpack(std::uint64_t first, std::uint64_t count, const std::byte* from) = 0;
};

struct DenseCall {
  std::uint64_t count = 0;
  DataType datatype = DataType::kFloat32;
  sparse::Reduction reduction;
  DenseValues* values = nullptr;
  std::uint32_t number = 0;  // of the call, for its channels
};

struct DenseRow {
  const char* name;
  double (*seconds)(const LinkCost& link, int size, std::uint64_t bytes);
  Task (*run)(const CommContext& comm, const DenseCall& call, Traffic& traffic);
};

std::span<const DenseRow> dense_table();
extern const comm::AlgorithmChoice kDenseAlgorithms;

struct DensePlan {
  const DenseRow* row;
  double seconds;  // predicted
};

// For a call's fingerprint: the forced row, counted from 1; 0: none.
std::uint8_t forced_dense_row(std::string_view name);
std::string_view forced_dense_name(std::uint8_t row);
// The cheapest row; forced_name ("auto": none) narrows the choice and is valid.
DensePlan plan_dense(const LinkCost& link, int size, std::uint64_t bytes,
                     std::string_view forced_name);

constexpr double kCombineSecondsPerByte = 0.1e-9;  // gamma; heuristic

// Lanes of a call's channel; 0 is the agreement's.
constexpr std::uint8_t kContributions = 1;
constexpr std::uint8_t kResults = 2;

// The rows, each in the file of its name.
double direct_seconds(const LinkCost& link, int size, std::uint64_t bytes);
Task reduce_direct(const CommContext& comm, const DenseCall& call, Traffic& traffic);
double owner_seconds(const LinkCost& link, int size, std::uint64_t bytes);
Task reduce_by_owner(const CommContext& comm, const DenseCall& call, Traffic& traffic);

}  // namespace sparcl::collectives::dense
