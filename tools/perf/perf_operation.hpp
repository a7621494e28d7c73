#pragma once
// An operation that sparcl-perf measures: its inputs, one call of the library, the dense call that
// it replaces, and a check of the result.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "sparcl/sparcl_mpi.h"

namespace sparcl::perf {

struct Options {
  std::string op = "allreduce_masked";
  std::uint64_t min_bytes = 1 << 20;  // of the dense array
  std::uint64_t max_bytes = 64 << 20;
  double factor = 4;
  std::string dtype = "float32";
  double density = 0.01;
  double overlap = 0;
  std::vector<int> ranks = {};  // that aggregate; none: all
  std::vector<std::string> algorithms{"auto"};  // each is measured, in turn
  int iterations = 21;
  int warmup = 3;
  bool redraw = false;         // a masked call draws its mask anew, too
  std::string mode = "union";  // of allreduce_topk
  std::string wire = "exact";  // of allreduce_topk
  bool dense = true;           // measure the dense calls, too
  bool json = false;

  bool is_top_k() const { return op == "allreduce_topk"; }
};

struct ElementType {
  const char* name;
  sparclDataType_t type;
  std::size_t bytes;
};
const ElementType& element_type(const std::string& name);
std::vector<std::string> element_type_names();

class Operation {
 public:
  virtual ~Operation() = default;
  // Restores the input of the next call; not timed.
  virtual void reset() {}
  virtual void call(Comm& comm) = 0;
  // The same by MPI on all elements: in one call, or cut into pieces of 1 MiB, which is faster for
  // large arrays.
  virtual void dense(bool in_pieces) = 0;
  // The number of wrong elements on this rank, after call().
  virtual std::uint64_t wrong() = 0;
};

struct OperationRow {
  const char* name;
  std::vector<const char*> own_options;  // that other operations do not have
  std::unique_ptr<Operation> (*make)(const Options& options, std::uint64_t count, Comm& comm);
};
const std::vector<OperationRow>& operation_table();
const OperationRow& find_operation(const std::string& name);

// The values of --algo besides auto, and the setting that they stand for.
struct Algorithms {
  std::string setting;
  std::vector<std::string> names;
};
Algorithms algorithms_of(const Options& options);
std::string algorithm_names();  // of all operations, for --help

// A value that depends on the rank and the element: small whole numbers, whose sums are exact in
// any order and every type.
inline int value_of(int rank, std::uint64_t element) {
  const std::uint64_t mixed = (element + 1) * 0x9E3779B97F4A7C15 +
                              static_cast<std::uint64_t>(rank + 1) * 0xD2E7470EE14C6C93;
  return static_cast<int>((mixed >> 40) % 7) - 3;
}

// Whole numbers as elements of a type, and back.
void put(const ElementType& type, std::byte* array, std::uint64_t element, int value);
bool holds(const ElementType& type, const std::byte* array, std::uint64_t element, int value);

// MPI_Allreduce of all elements, the sum. MPI has no bfloat16: a user operation with vector
// instructions sums it.
void dense_all_reduce(const ElementType& type, const std::byte* send, std::byte* receive,
                      std::uint64_t count, bool in_pieces);
void dense_broadcast(const ElementType& type, std::byte* array, std::uint64_t count,
                     bool in_pieces);

std::unique_ptr<Operation> make_all_reduce_masked(const Options& options, std::uint64_t count,
                                                  Comm& comm);
std::unique_ptr<Operation> make_all_reduce_sparse(const Options& options, std::uint64_t count,
                                                  Comm& comm);
std::unique_ptr<Operation> make_all_reduce_top_k(const Options& options, std::uint64_t count,
                                                 Comm& comm);
std::unique_ptr<Operation> make_broadcast_delta(const Options& options, std::uint64_t count,
                                                Comm& comm);
std::unique_ptr<Operation> make_broadcast_sparse(const Options& options, std::uint64_t count,
                                                 Comm& comm);

}  // namespace sparcl::perf
