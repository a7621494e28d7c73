#include "src/codec/step_list.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/with_width.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint8_t kAllFlag = 0x40;
constexpr unsigned kExponentMask = 0x3f;

using Widths = std::array<std::uint32_t, 64>;  // how many m have floor(log2(m + 1)) = b

struct ExponentChoice {
  unsigned exponent = 0;
  std::uint64_t bits = 0;
};

ExponentChoice choose_exponent(const Widths& widths) {
  unsigned top = 0;
  for (unsigned b = 0; b < widths.size(); ++b) top = widths[b] > 0 ? b : top;
  ExponentChoice best{0, kernels::about_gamma_bits(widths.data(), top, 0)};
  for (unsigned e = 1; e <= std::min(top + 1, kernels::kMaxGammaExponent); ++e) {
    const std::uint64_t bits = kernels::about_gamma_bits(widths.data(), top, e);
    if (bits >= best.bits) break;  // the sum is convex in e, except for its rounding
    best = {e, bits};
  }
  return best;
}

// Multiplies the steps (+1 or -1 before) at `changes` (nullptr: all) by m + least. False if a
// result overflows its type.
template <class T>
bool scale_steps(std::span<const std::uint64_t> coded, const std::uint16_t* changes, unsigned least,
                 std::byte* steps) {
  const std::uint64_t largest =
      (std::uint64_t{1} << (8 * sizeof(T) - 1)) - least;  // m of the most negative step
  bool valid = true;
  for (std::size_t i = 0; i < coded.size(); ++i) {
    const std::size_t change = changes != nullptr ? changes[i] : i;
    const T step = load<T>(steps, change);
    valid = valid && coded[i] <= largest - (step == 1 ? 1 : 0);
    const T scaled = static_cast<T>(std::uint64_t{step} * (coded[i] + least));
    std::memcpy(steps + change * sizeof(T), &scaled, sizeof scaled);
  }
  return valid;
}

}  // namespace

void StepList::prepare(const kernels::KernelSet& kernels, DataType datatype,
                       const std::byte* old_values, const std::byte* new_values,
                       std::size_t count) {
  kernels_ = &kernels;
  width_ = element_bytes(datatype);
  count_ = count;
  std::byte* magnitudes = magnitudes_.need(count * width_);
  std::uint16_t* exceptions = exceptions_.need(count + kernels::kPositionSlack);
  kernels.order_of(datatype).split_steps(old_values, new_values, count, magnitudes,
                                         negative_.need(count / 64 + 1));
  const std::size_t found = kernels.of(datatype).find_not_one(magnitudes, count, exceptions);
  exception_list_.prepare(kernels.lists, {exceptions, found}, count);
  choose_form();
  size_bits_ =
      kernels.gammas.lengths(coded_.data(), coded_count_, exponent_, lengths_.need(coded_count_));
}

// Sets coded_ to |d| - less of the first `count` exceptions, or of all changes. Below 2^63 by
// definition. The mask keeps accesses in bounds if a caller writes to its arrays meanwhile.
void StepList::collect(const std::uint16_t* which, std::size_t count, unsigned less) {
  std::uint64_t* coded = coded_.need(count);
  coded_count_ = count;
  with_width(width_, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t change = which != nullptr ? which[i] : i;
      coded[i] =
          (std::uint64_t{load<T>(magnitudes_.data(), change)} - less) & (~std::uint64_t{0} >> 1);
    }
  });
}

// Lists the exceptions or codes all changes, whichever is estimated smaller; sets coded_.
void StepList::choose_form() {
  const kernels::GammaKernels& gammas = kernels_->gammas;
  const std::size_t exceptions = exception_list_.count;
  Widths widths;
  collect(exceptions_.data(), exceptions, 2);
  gammas.widths(coded_.data(), exceptions, 0, widths.data());
  const ExponentChoice of_listed = choose_exponent(widths);
  all_ = false;
  exponent_ = of_listed.exponent;
  const std::size_t others = count_ - exceptions;
  const std::uint64_t list_bits = exception_list_.plane_bits() + exception_list_.unary_bits();
  if (list_bits <= others) return;  // each of the others would cost at least a bit
  gammas.widths(coded_.data(), exceptions, 1, widths.data());
  widths[0] += static_cast<std::uint32_t>(others);
  const ExponentChoice of_all = choose_exponent(widths);
  if (of_all.bits >= of_listed.bits + list_bits) return;
  all_ = true;
  exponent_ = of_all.exponent;
  collect(nullptr, count_, 1);
}

std::size_t StepList::head_bytes() const {
  std::byte varint[kMaxVarintBytes];
  return 1 + (all_ ? 0 : store_varint(varint, exception_list_.count));
}

std::uint64_t StepList::bits() const {
  return count_ + size_bits_ +
         (all_ ? 0 : exception_list_.plane_bits() + exception_list_.unary_bits());
}

std::byte* StepList::write_head(std::byte* out) const {
  *out++ = static_cast<std::byte>(exponent_ | (all_ ? kAllFlag : 0));
  return all_ ? out : out + store_varint(out, exception_list_.count);
}

void StepList::write_planes(kernels::BitWriter& bits) const {
  for (std::size_t i = 0; i < count_; i += 64) {
    bits.put(negative_.data()[i / 64],
             static_cast<unsigned>(std::min<std::size_t>(64, count_ - i)));
  }
  if (!all_) exception_list_.write_planes(kernels_->lists, bits);
}

void StepList::write_unary(kernels::BitWriter& bits) const {
  if (!all_) exception_list_.write_unary(kernels_->lists, bits);
  kernels_->gammas.write(coded_.data(), lengths_.data(), coded_count_, exponent_, bits);
}

const char* StepListReader::read_head(std::span<const std::byte>& payload, std::size_t count) {
  ByteReader reader(payload);
  std::uint8_t parameters = 0;
  std::uint64_t sizes = count;
  if (!reader.read(parameters) || parameters >= 2 * kAllFlag) return "has invalid parameters";
  all_ = (parameters & kAllFlag) != 0;
  exponent_ = parameters & kExponentMask;
  if (!all_ && (!reader.read_varint(sizes) || sizes > count))
    return "has more exceptions than changes";
  if (sizes == 0 && exponent_ != 0) return "has an exponent and nothing to use it for";
  count_ = count;
  sizes_ = static_cast<std::size_t>(sizes);
  payload = payload.subspan(reader.position());
  return nullptr;
}

const char* StepListReader::read_planes(const kernels::KernelSet& kernels, DataType datatype,
                                        BitCursor& bits, std::byte* steps) {
  if (bits.left() < count_) return "ends inside its signs";
  kernels.of(datatype).unit_steps(bits.bytes, bits.at, count_, steps);
  bits.at += count_;
  return exception_list_.read_planes(kernels.lists, bits, count_, all_ ? 0 : sizes_)
             ? nullptr
             : "ends inside its exceptions";
}

const char* StepListReader::read_unary(const kernels::KernelSet& kernels, DataType datatype,
                                       BitCursor& bits, std::byte* steps) {
  std::uint16_t* exceptions = exceptions_.need((all_ ? 0 : sizes_) + kernels::kPositionSlack);
  if (!exception_list_.read_unary(kernels.lists, bits, exceptions))
    return "has exceptions past its changes";
  std::uint64_t* coded = coded_.need(sizes_);
  const std::uint64_t used = kernels.gammas.read(bits.bytes, bits.at, bits.left(), sizes_,
                                                 exponent_, lengths_.need(sizes_), coded);
  if (used == kernels::kNoGammas) return "ends inside its magnitudes, or has one past 2^63";
  bits.at += used;
  const bool valid = with_width(element_bytes(datatype), [&](auto zero) {
    return scale_steps<decltype(zero)>({coded, sizes_}, all_ ? nullptr : exceptions, all_ ? 1 : 2,
                                       steps);
  });
  return valid ? nullptr : "has a step larger than its data type";
}

}  // namespace sparcl::codec
