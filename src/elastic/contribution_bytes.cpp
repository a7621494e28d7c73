#include "src/elastic/contribution_bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/sparse/parts/part_code.hpp"

namespace sparcl::elastic {
namespace {

// From this density on bitmaps are about as short as lists of positions, and cost nothing.
constexpr unsigned kDenseLog2 = 3;

bool is_coded(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(std::uint64_t) &&
         (load_le<std::uint64_t>(bytes.data()) & sparse::kCodedPart) != 0;
}

sparse::PartShape shape_of(const sparse::BlockRun& run, const Offered& offered) {
  return {run, element_bytes(value_type(offered)), offered.form};
}

// All positions ascend in their blocks and are elements of the array.
bool is_of_elements(const kernels::KernelSet& kernels, const sparse::BlockRun& run,
                    std::uint64_t count, sparse::PartView view) {
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  for (; !view.at_end(); view.next()) {
    const std::size_t entries = view.block_entries();
    const std::uint16_t* const positions = view.positions(kernels, scratch.data());
    const auto out_of_order = [](std::uint16_t a, std::uint16_t b) { return a >= b; };
    if (std::adjacent_find(positions, positions + entries, out_of_order) != positions + entries)
      return false;
    if (run.base_of(view.block()) + positions[entries - 1] >= count) return false;
  }
  return true;
}

}  // namespace

DataType value_type(const Offered& offered) {
  return offered.is_narrow ? DataType::kBfloat16 : DataType::kFloat32;
}

Result<Packed> pack(BufferSource& buffers, const kernels::KernelSet& kernels,
                    const sparse::BlockRun& run, const sparse::WireType& wire,
                    std::span<const std::uint64_t> indices, const std::byte* values) {
  Offered offered;
  offered.form = wire.form;
  offered.is_narrow = wire.sent == DataType::kBfloat16;
  const std::size_t value_bytes = shape_of(run, offered).value_bytes;
  return pack_part(buffers, kernels, run, offered,
                   sparse::write_part(buffers, kernels, run, indices, values, value_bytes));
}

Result<Packed> pack_part(BufferSource& buffers, const kernels::KernelSet& kernels,
                         const sparse::BlockRun& run, const Offered& offered, Buffer part) {
  Packed packed{offered, std::move(part)};
  const sparse::PartShape shape = shape_of(run, offered);
  const std::optional<sparse::PartView> view =
      sparse::PartView::read(kernels, packed.bytes.bytes(), run, shape.value_bytes);
  const bool is_dense = view && view->entries() > (run.end_index() >> kDenseLog2);
  if (shape.is_scaled() || !is_dense) {
    sparse::PartCoder coder(kernels);
    if (std::optional<Buffer> coded = coder.code(buffers, packed.bytes.bytes(), shape))
      packed.bytes = std::move(*coded);
  }
  packed.offered.bytes = packed.bytes.size();
  SPARCL_ASSIGN_OR_RETURN(packed.offered.digest, digest_of(packed.bytes.bytes()));
  return packed;
}

Result<model::Digest256> digest_of(std::span<const std::byte> bytes) {
  std::vector<model::Digest256> leaves;
  for (std::uint64_t leaf = 0; leaf < model::leaf_count(bytes.size()); ++leaf) {
    const std::uint64_t begin = leaf * model::kLeafBytes;
    SPARCL_ASSIGN_OR_RETURN(
        leaves.emplace_back(),
        model::leaf_digest(bytes.subspan(begin, model::leaf_end(leaf, bytes.size()) - begin)));
  }
  return model::root_of(leaves);
}

std::uint64_t max_contribution_bytes(const sparse::BlockRun& run, std::uint64_t count) {
  return sparse::max_part_bytes(run, count, sizeof(float));
}

Result<Buffer> unpack(BufferSource& buffers, const kernels::KernelSet& kernels,
                      const sparse::BlockRun& run, std::uint64_t count, const Offered& offered,
                      const Buffer& bytes) {
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 digest, digest_of(bytes.bytes()));
  if (digest != offered.digest) return corrupt("a contribution's bytes do not match their digest");
  return unpack_checked(buffers, kernels, run, count, offered, bytes);
}

Result<Buffer> unpack_checked(BufferSource& buffers, const kernels::KernelSet& kernels,
                              const sparse::BlockRun& run, std::uint64_t count,
                              const Offered& offered, const Buffer& bytes) {
  const sparse::PartShape shape = shape_of(run, offered);
  Buffer part = bytes;
  if (is_coded(bytes.bytes())) {
    sparse::PartCoder coder(kernels);
    std::optional<Buffer> expanded =
        coder.expand(buffers, bytes.bytes(), shape, max_contribution_bytes(run, count));
    if (!expanded) return corrupt("a contribution's bytes are no coded part of the model");
    part = std::move(*expanded);
  }
  const std::optional<sparse::PartView> view =
      sparse::PartView::read(kernels, part.bytes(), run, shape.value_bytes);
  if (view && is_of_elements(kernels, run, count, *view)) return part;
  return corrupt("a contribution's bytes are no part of the model");
}

std::vector<float> values_of(const kernels::KernelSet& kernels, const sparse::BlockRun& run,
                             std::span<const std::byte> part, DataType type) {
  const std::optional<sparse::PartView> view =
      sparse::PartView::read(kernels, part, run, element_bytes(type));
  std::vector<float> values(view ? view->entries() : 0);
  if (view)
    sparse::widen_from_wire(kernels, {DataType::kFloat32, type}, view->values(), values.size(),
                            reinterpret_cast<std::byte*>(values.data()));
  return values;
}

Entries entries_of(const kernels::KernelSet& kernels, const sparse::BlockRun& run,
                   std::span<const std::byte> part, DataType type) {
  Entries entries;
  entries.values = values_of(kernels, run, part, type);
  entries.indices.reserve(entries.values.size());
  std::optional<sparse::PartView> view =
      sparse::PartView::read(kernels, part, run, element_bytes(type));
  if (!view) return entries;
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  for (; !view->at_end(); view->next()) {
    const std::uint16_t* const positions = view->positions(kernels, scratch.data());
    const std::uint64_t base = run.base_of(view->block());
    for (std::size_t i = 0; i < view->block_entries(); ++i)
      entries.indices.push_back(base + positions[i]);
  }
  return entries;
}

}  // namespace sparcl::elastic
