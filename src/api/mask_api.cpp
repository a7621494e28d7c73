// Shared masks behind the C interface.
#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "src/api/call_checks.hpp"
#include "src/api/error.hpp"
#include "src/api/mask_handle.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::guarded;
using sparcl::collectives::Mask;

namespace {

template <class Make>
sparclResult_t create(const char* function, sparclMask_t* mask, Make&& make) {
  return guarded([&]() -> Status {
    const std::string prefix = std::string(function) + ": ";
    if (mask == nullptr) return Status(Code::kInvalidArgument, prefix + "mask is NULL");
    Result<Mask> made = make();
    if (!made.ok()) return made.status().with_prefix(prefix);
    *mask = std::make_unique<sparclMask>(std::move(*made)).release();
    return Status();
  });
}

Status check_idle(const sparclMask* mask) {
  if (mask == nullptr) return Status(Code::kInvalidArgument, "mask is NULL");
  if (mask->calls_in_flight > 0) return Status(Code::kInvalidUsage, "a call with this mask is in flight");
  return Status();
}

}  // namespace

extern "C" {

sparclResult_t sparclMaskCreateIndices(sparclMask_t* mask, const uint64_t* indices, size_t nnz, size_t count) {
  return create(__func__, mask, [&]() -> Result<Mask> {
    SPARCL_RETURN_IF_ERROR(sparcl::api::check_array("nnz", nnz, sizeof(uint64_t)));
    if (nnz > 0 && indices == nullptr) return Status(Code::kInvalidArgument, "indices is NULL");
    return Mask::of_indices(std::span(indices, nnz), count);
  });
}

sparclResult_t sparclMaskCreateRandom(sparclMask_t* mask, size_t count, double density, uint64_t seed) {
  return create(__func__, mask, [&] { return Mask::random(count, density, seed); });
}

sparclResult_t sparclMaskCreateBlocks(sparclMask_t* mask, size_t count, size_t block, double density, uint64_t seed) {
  return create(__func__, mask, [&] { return Mask::random_blocks(count, block, density, seed); });
}

sparclResult_t sparclMaskSetStep(sparclMask_t mask, uint64_t step) {
  return guarded([&]() -> Status {
    if (Status bad = check_idle(mask); !bad.ok()) return bad.with_prefix("sparclMaskSetStep: ");
    mask->mask.set_step(step);
    mask->on_devices.clear();
    return Status();
  });
}

sparclResult_t sparclMaskGetIndices(sparclMask_t mask, uint64_t* indices, size_t capacity, size_t* nnz) {
  return guarded([&]() -> Status {
    if (mask == nullptr) return Status(Code::kInvalidArgument, "sparclMaskGetIndices: mask is NULL");
    if (nnz == nullptr) return Status(Code::kInvalidArgument, "sparclMaskGetIndices: nnz is NULL");
    *nnz = mask->mask.size();
    if (indices == nullptr) return Status();
    if (*nnz > capacity) {
      return Status(Code::kTruncated, fmt::format("sparclMaskGetIndices: {} indices do not fit a capacity of {}", *nnz, capacity));
    }
    mask->mask.write_indices(indices);
    return Status();
  });
}

sparclResult_t sparclMaskDestroy(sparclMask_t mask) {
  return guarded([&]() -> Status {
    if (mask == nullptr) return Status();
    if (Status bad = check_idle(mask); !bad.ok()) return bad.with_prefix("sparclMaskDestroy: ");
    delete mask;
    return Status();
  });
}

}  // extern "C"
