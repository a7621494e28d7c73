#include "src/model/files/change_shape.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/model/model_hash.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kShapePiece = 65536;
constexpr std::uint64_t kShapeGroup = 128;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 28;  // of a sample: a second, heuristic

struct Histogram {
  std::array<std::uint64_t, 256> all{};
  std::array<std::uint64_t, 256> changed{};
};

// The top eight bits of the magnitude: of bfloat16 and float32 the exponent.
std::size_t class_of(const std::byte* at, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, width);
  const unsigned bits = static_cast<unsigned>(8 * width);
  return static_cast<std::size_t>((value << (65 - bits)) >> 56);
}

class Shape {
 public:
  explicit Shape(const kernels::KernelSet& kernels)
      : kernels_(kernels),
        positions_(kShapePiece + kernels::kPositionSlack),
        old_values_(8 * kShapePiece + kernels::kValueSlackBytes),
        new_values_(8 * kShapePiece + kernels::kValueSlackBytes),
        magnitudes_(8 * kShapePiece + kernels::kValueSlackBytes),
        negative_(kShapePiece / 64 + 2),
        others_(kShapePiece + kernels::kPositionSlack) {}

  void add(DataType type, const std::byte* base, const std::byte* target, std::uint64_t count) {
    const std::size_t found = kernels_.of(type).diff_values(
        base, target, count, 0, positions_.data(), old_values_.data(), new_values_.data());
    elements_ += count;
    changed_ += found;
    std::uint64_t last = kShapePiece;
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint64_t group = positions_[i] / kShapeGroup;
      active_groups_ += group != last ? 1 : 0;
      last = group;
    }
    groups_ += (count + kShapeGroup - 1) / kShapeGroup;
    kernels_.order_of(type).split_steps(old_values_.data(), new_values_.data(), found,
                                        magnitudes_.data(), negative_.data());
    unit_steps_ +=
        found - kernels_.of(type).find_not_one(magnitudes_.data(), found, others_.data());
    if (info(type).is_float) add_classes(base, element_bytes(type), count, found);
  }

  void finish(ChangeShape& shape) const {
    const double p =
        elements_ == 0 ? 0 : static_cast<double>(changed_) / static_cast<double>(elements_);
    if (changed_ == 0) return;
    const double changes = static_cast<double>(changed_);
    const double expected = 1 - std::pow(1 - p, static_cast<double>(kShapeGroup));
    shape.clustering =
        expected * static_cast<double>(groups_) / static_cast<double>(active_groups_);
    shape.position_bits = binary_entropy(p) / p;
    shape.unit_steps = static_cast<double>(unit_steps_) / changes;
    shape.position_bits_given_old = bits_given_old(changes);
  }

 private:
  void add_classes(const std::byte* base, std::size_t width, std::uint64_t count,
                   std::size_t found) {
    for (std::uint64_t i = 0; i < count; ++i) ++classes_.all[class_of(base + i * width, width)];
    for (std::size_t i = 0; i < found; ++i)
      ++classes_.changed[class_of(old_values_.data() + i * width, width)];
    float_elements_ += count;
    float_changed_ += found;
  }

  double bits_given_old(double changes) const {
    double bits = 0;
    for (std::size_t i = 0; i < classes_.all.size(); ++i) {
      const auto all = static_cast<double>(classes_.all[i]);
      if (all > 0) bits += all * binary_entropy(static_cast<double>(classes_.changed[i]) / all);
    }
    const auto others =
        static_cast<double>(elements_ - float_elements_);  // no floats: known by nothing
    if (others > 0)
      bits += others * binary_entropy(static_cast<double>(changed_ - float_changed_) / others);
    return bits / changes;
  }

  const kernels::KernelSet& kernels_;
  std::vector<std::uint16_t> positions_;
  std::vector<std::byte> old_values_;
  std::vector<std::byte> new_values_;
  std::vector<std::byte> magnitudes_;
  std::vector<std::uint64_t> negative_;
  std::vector<std::uint16_t> others_;
  std::uint64_t elements_ = 0;
  std::uint64_t changed_ = 0;
  std::uint64_t groups_ = 0;
  std::uint64_t active_groups_ = 0;
  std::uint64_t unit_steps_ = 0;
  std::uint64_t float_elements_ = 0;
  std::uint64_t float_changed_ = 0;
  Histogram classes_;
};

}  // namespace

double binary_entropy(double p) {
  return p <= 0 || p >= 1 ? 0 : -p * std::log2(p) - (1 - p) * std::log2(1 - p);
}

ChangeShape measure_shape(const StateView& base, const StateView& target,
                          const kernels::KernelSet& kernels) {
  const codec::BlockMap map = make_block_map(base.schema);
  const codec::ArrayInput before = base.input(), after = target.input();
  std::vector<std::byte> old_piece, new_piece;
  const std::uint64_t stride = 1 + map.element_count() / kMaxElements;
  ChangeShape result;
  result.elements = map.element_count();
  result.dense_bytes = map.byte_count();
  Shape shape(kernels);
  std::uint64_t piece = 0;
  for (std::uint32_t i = 0; i < base.schema.size(); ++i) {
    const auto& [type, count] = map.arrays()[i];
    const std::size_t width = element_bytes(type);
    for (std::uint64_t first = 0; first < count; first += kShapePiece, ++piece) {
      if (piece % stride != 0) continue;
      const std::uint64_t some = std::min(kShapePiece, count - first);
      shape.add(type, before.read(i, first, some, width, old_piece),
                after.read(i, first, some, width, new_piece), some);
    }
  }
  shape.finish(result);
  return result;
}

}  // namespace sparcl::model
