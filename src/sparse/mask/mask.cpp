#include "src/sparse/mask/mask.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "src/base/checksum.hpp"
#include "src/sparse/mask/random_choice.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::uint64_t kBlockBits = 16;  // of the array, whose positions fit 16 bits
constexpr std::uint64_t kBlock = std::uint64_t{1} << kBlockBits;

constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 44;

Status check_count(std::uint64_t count) {
  if (count <= kMaxElements) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("count is {}: a mask takes up to 2^44 elements", count));
}

Status check_density(double density) {
  if (density >= 0 && density <= 1) return {};
  const std::string given =
      std::isnan(density) ? "NaN" : fmt::format("{:g}", density);  // fmt's may be "-nan"
  return Status(Code::kInvalidArgument,
                fmt::format("density is {}: a share from 0 to 1 is needed", given));
}

template <class Words>
std::uint64_t hash_of(const Words& words, std::uint64_t seed) {
  return xxh3_64(std::as_bytes(std::span(words)), seed);
}

}  // namespace

Result<Mask> Mask::of_indices(std::span<const std::uint64_t> indices, std::uint64_t count) {
  SPARCL_RETURN_IF_ERROR(check_count(count));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= count)
      return Status(
          Code::kInvalidArgument,
          fmt::format("indices[{}] is {}: the array has {} elements", i, indices[i], count));
    if (i > 0 && indices[i - 1] >= indices[i]) {
      return Status(Code::kInvalidArgument,
                    fmt::format("indices must ascend strictly: indices[{}] = {} is followed by {}",
                                i - 1, indices[i - 1], indices[i]));
    }
  }
  Mask mask;
  mask.count_ = count;
  mask.identity_ = hash_of(indices, count);
  mask.take(indices);
  return mask;
}

Result<Mask> Mask::random(std::uint64_t count, double density, std::uint64_t seed) {
  SPARCL_RETURN_IF_ERROR(check_count(count));
  SPARCL_RETURN_IF_ERROR(check_density(density));
  Mask mask;
  mask.kind_ = MaskKind::kRandom;
  mask.count_ = count;
  mask.density_ = density;
  mask.seed_ = seed;
  mask.chosen_ = std::min(
      count, static_cast<std::uint64_t>(std::llround(density * static_cast<double>(count))));
  mask.draw();
  return mask;
}

Result<Mask> Mask::random_blocks(std::uint64_t count, std::uint64_t block, double density,
                                 std::uint64_t seed) {
  SPARCL_RETURN_IF_ERROR(check_count(count));
  SPARCL_RETURN_IF_ERROR(check_density(density));
  if (block == 0)
    return Status(Code::kInvalidArgument, "a block of 0 elements: at least 1 is needed");
  Mask mask;
  mask.kind_ = MaskKind::kBlocks;
  mask.count_ = count;
  mask.block_ = block;
  mask.density_ = density;
  mask.seed_ = seed;
  const std::uint64_t blocks = count / block + (count % block != 0);
  mask.chosen_ = std::min(
      blocks, static_cast<std::uint64_t>(std::llround(density * static_cast<double>(blocks))));
  mask.draw();
  return mask;
}

void Mask::set_step(std::uint64_t step) {
  if (kind_ == MaskKind::kIndices || step == step_) return;
  Mask drawn;  // what this one holds stays if there is no memory for another
  drawn.kind_ = kind_;
  drawn.count_ = count_;
  drawn.block_ = block_;
  drawn.density_ = density_;
  drawn.chosen_ = chosen_;
  drawn.seed_ = seed_;
  drawn.step_ = step;
  drawn.draw();
  *this = std::move(drawn);
}

MaskSketch Mask::sketch() const {
  MaskSketch made{.kind = kind_, .nnz = size_, .identity = identity_};
  if (kind_ == MaskKind::kIndices) return made;
  made.block = kind_ == MaskKind::kBlocks ? block_ : 0;
  made.density = density_;
  made.seed = seed_;
  made.step = step_;
  return made;
}

void Mask::draw() {
  identity_ =
      hash_of(std::array{count_, block_, chosen_, seed_, step_}, static_cast<std::uint64_t>(kind_));
  const std::uint64_t n =
      kind_ == MaskKind::kBlocks ? count_ / block_ + (count_ % block_ != 0) : count_;
  is_full_ = chosen_ == n;
  size_ = is_full_ ? count_ : chosen_;
  parts_.clear();
  positions_.clear();
  if (is_full_) return;
  if (kind_ == MaskKind::kBlocks) {
    runs_ = choose(n, chosen_, seed_, step_);
    size_ = chosen_ * block_;
    if (!runs_.empty() && runs_.back() == n - 1) size_ -= n * block_ - count_;
  } else {
    draw_elements();
  }
}

void Mask::draw_elements() {
  if (chosen_ == 0) return;
  RandomChoice choice(count_, chosen_, seed_, step_);
  positions_.resize(size_ + kernels::kPositionSlack);
  static_assert(kBlock == kStratum);
  for (std::uint64_t block = 0; block < choice.strata(); ++block) {
    const std::uint64_t begin = choice.chosen_before(block);
    if (choice.take(block, positions_.data() + begin) > 0) parts_.push_back({block, begin});
  }
}

void Mask::take(std::span<const std::uint64_t> ascending) {
  size_ = ascending.size();
  is_full_ = size_ == count_;
  if (is_full_) return;
  positions_.resize(size_);
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const std::uint64_t block = ascending[i] >> kBlockBits;
    if (parts_.empty() || parts_.back().block != block) parts_.push_back({block, i});
    positions_[i] = static_cast<std::uint16_t>(ascending[i]);
  }
}

template <class Visit>
void Mask::for_parts(std::uint64_t first, std::uint64_t n, const Visit& visit) const {
  if (n == 0) return;
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), first,
                       [](std::uint64_t place, const Part& part) { return place < part.begin; });
  for (auto part = after - 1; n > 0; ++part) {
    const std::uint64_t end = part + 1 == parts_.end() ? size_ : (part + 1)->begin;
    const std::uint64_t own = std::min(n, end - first);
    visit(part->block << kBlockBits, std::span(positions_).subspan(first, own));
    first += own;
    n -= own;
  }
}

// Calls visit(offset in the array, length). Chosen blocks are whole, except for the array's last.
template <class Visit>
void Mask::for_runs(std::uint64_t first, std::uint64_t n, const Visit& visit) const {
  while (n > 0) {
    const std::uint64_t offset = is_full_ ? 0 : first % block_;
    const std::uint64_t own = is_full_ ? n : std::min(n, block_ - offset);
    visit(is_full_ ? first : runs_[first / block_] * block_ + offset, own);
    first += own;
    n -= own;
  }
}

void Mask::write_indices(std::uint64_t* indices) const {
  if (is_full_ || kind_ == MaskKind::kBlocks) {
    for_runs(0, size_, [&](std::uint64_t at, std::uint64_t own) {
      for (std::uint64_t i = 0; i < own; ++i) *indices++ = at + i;
    });
    return;
  }
  for_parts(0, size_, [&](std::uint64_t block, std::span<const std::uint16_t> positions) {
    for (const std::uint16_t position : positions) *indices++ = block + position;
  });
}

Mask::Places Mask::places() const {
  if (is_full_)
    return {.is_full = true, .parts = {}, .positions = {}, .runs = {}, .run_elements = 0};
  if (kind_ == MaskKind::kBlocks)
    return {.is_full = false, .parts = {}, .positions = {}, .runs = runs_, .run_elements = block_};
  return {.is_full = false,
          .parts = parts_,
          .positions = std::span(positions_).first(size_),
          .runs = {},
          .run_elements = 0};
}

void Mask::pack(const std::byte* array, std::uint64_t first, std::uint64_t n, DataType type,
                const kernels::KernelSet& kernels, std::byte* packed) const {
  const std::size_t bytes = element_bytes(type);
  if (is_full_ || kind_ == MaskKind::kBlocks) {
    for_runs(first, n, [&](std::uint64_t at, std::uint64_t own) {
      std::memcpy(packed, array + at * bytes, own * bytes);
      packed += own * bytes;
    });
    return;
  }
  for_parts(first, n, [&](std::uint64_t block, std::span<const std::uint16_t> positions) {
    kernels.of(type).gather(array + block * bytes, positions.data(), positions.size(), 0, packed,
                            {});
    packed += positions.size() * bytes;
  });
}

void Mask::unpack(const std::byte* packed, std::uint64_t first, std::uint64_t n, DataType type,
                  const kernels::KernelSet& kernels, std::byte* array) const {
  const std::size_t bytes = element_bytes(type);
  if (is_full_ || kind_ == MaskKind::kBlocks) {
    for_runs(first, n, [&](std::uint64_t at, std::uint64_t own) {
      std::memcpy(array + at * bytes, packed, own * bytes);
      packed += own * bytes;
    });
    return;
  }
  for_parts(first, n, [&](std::uint64_t block, std::span<const std::uint16_t> positions) {
    kernels.of(type).scatter(array + block * bytes, positions.data(), positions.size(), 0, packed,
                             {});
    packed += positions.size() * bytes;
  });
}

void Mask::clear_outside(DataType type, std::byte* array) const {
  if (is_full_) return;
  const std::size_t bytes = element_bytes(type);
  std::uint64_t end = 0;  // of what is done
  const auto keep = [&](std::uint64_t at, std::uint64_t own) {
    if (at > end) std::memset(array + end * bytes, 0, (at - end) * bytes);
    end = at + own;
  };
  if (kind_ == MaskKind::kBlocks) {
    for_runs(0, size_, keep);
  } else {
    for_parts(0, size_, [&](std::uint64_t block, std::span<const std::uint16_t> positions) {
      for (const std::uint16_t position : positions) keep(block + position, 1);
    });
  }
  keep(count_, 0);
}

}  // namespace sparcl::sparse
