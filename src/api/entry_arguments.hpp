#pragma once
// The arguments of calls that take a sparse vector and give one.

#include <cstddef>
#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::api {

struct EntryArguments {
  const void* values;
  const std::uint64_t* indices;
  std::size_t nnz, count;
  void* out_values;
  std::uint64_t* out_indices;
  std::size_t* out_nnz;
  std::size_t out_capacity;
  int datatype;

  // Room beyond all memory is no slip but "enough": entries are what is written.
  std::size_t room() const;
};

// InvalidArgument names the argument. The data type is valid.
Status check_entries(const EntryArguments& given);

}  // namespace sparcl::api
