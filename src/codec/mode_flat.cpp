// Mode flat: positions, and steps against the value that the receiver holds. Most steps are +1 or -1 in units of the last place:
// those cost their sign; the others are listed with their size (or, where most are larger, all sizes are coded).

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint8_t kAllFlag = 0x40;
constexpr unsigned kExponentMask = 0x3f;

using Widths = std::array<std::uint32_t, 64>;  // how many m have floor(log2(m + 1)) = b

// Calls visit with a zero of the unsigned type of `bytes`.
template <class Visit>
auto with_width(std::size_t bytes, Visit visit) {
  switch (bytes) {
    case 1:
      return visit(std::uint8_t{0});
    case 2:
      return visit(std::uint16_t{0});
    case 4:
      return visit(std::uint32_t{0});
    default:
      return visit(std::uint64_t{0});
  }
}

template <class T>
T load(const std::byte* array, std::size_t i) {
  T value;
  std::memcpy(&value, array + i * sizeof value, sizeof value);
  return value;
}

// About the bits of all m's with exponent e: exact but for m's next to a power of two. Integer only, so that every sender decides
// alike.
std::uint64_t estimate(const Widths& widths, unsigned top, unsigned e) {
  std::uint64_t bits = 0;
  for (unsigned b = 0; b <= top; ++b) {
    const unsigned scaled = std::max(b, e) + (b == e && b > 0 ? 1 : 0);
    bits += widths[b] * std::uint64_t{2 * scaled - e + 1};
  }
  return bits;
}

struct ExponentChoice {
  unsigned exponent = 0;
  std::uint64_t bits = 0;
};

ExponentChoice choose_exponent(const Widths& widths) {
  unsigned top = 0;
  for (unsigned b = 0; b < widths.size(); ++b) top = widths[b] > 0 ? b : top;
  ExponentChoice best{0, estimate(widths, top, 0)};
  for (unsigned e = 1; e <= std::min(top + 1, 62u); ++e) {
    const std::uint64_t bits = estimate(widths, top, e);
    if (bits >= best.bits) break;  // the sum is convex in e, but for its rounding
    best = {e, bits};
  }
  return best;
}

// Sets plan.coded to |d| - less of the first `count` exceptions, or of all changes. Below 2^63 by definition; the mask keeps a
// caller that writes to its arrays meanwhile from leading us out of bounds.
void collect(const BlockChanges& changes, FlatPlan& plan, const std::uint16_t* which, std::size_t count, unsigned less) {
  std::uint64_t* coded = plan.coded.need(count);
  plan.coded_count = count;
  with_width(changes.shape().element_bytes(), [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t change = which != nullptr ? which[i] : i;
      coded[i] = (std::uint64_t{load<T>(plan.magnitudes.data(), change)} - less) & (~std::uint64_t{0} >> 1);
    }
  });
}

void find_steps(BlockChanges& changes, FlatPlan& plan) {
  const BlockShape shape = changes.shape();
  std::byte* magnitudes = plan.magnitudes.need(changes.count * shape.element_bytes());
  std::uint16_t* exceptions = plan.exceptions.need(changes.count + kernels::kPositionSlack);
  changes.kernels->order_of(shape.datatype)
      .split_steps(changes.old_values.data(), changes.new_values.data(), changes.count, magnitudes,
                   plan.negative.need(changes.count / 64 + 1));
  const std::size_t found = changes.kernels->of(shape.datatype).find_not_one(magnitudes, changes.count, exceptions);
  plan.exception_list.prepare(changes.kernels->lists, {exceptions, found}, changes.count);
}

// Lists the exceptions or codes all, whichever is estimated smaller; sets plan.coded.
void choose_form(const BlockChanges& changes, FlatPlan& plan) {
  const kernels::GammaKernels& gammas = changes.kernels->gammas;
  const std::size_t exceptions = plan.exception_list.count;
  Widths widths;
  collect(changes, plan, plan.exceptions.data(), exceptions, 2);
  gammas.widths(plan.coded.data(), exceptions, 0, widths.data());
  const ExponentChoice of_listed = choose_exponent(widths);
  plan.all = false;
  plan.exponent = of_listed.exponent;
  const std::size_t others = changes.count - exceptions;
  const std::uint64_t list_bits = plan.exception_list.plane_bits() + plan.exception_list.unary_bits();
  if (list_bits <= others) return;  // each of these would cost a bit at least
  gammas.widths(plan.coded.data(), exceptions, 1, widths.data());
  widths[0] += static_cast<std::uint32_t>(others);
  const ExponentChoice of_all = choose_exponent(widths);
  if (of_all.bits >= of_listed.bits + list_bits) return;
  plan.all = true;
  plan.exponent = of_all.exponent;
  collect(changes, plan, nullptr, changes.count, 1);
}

std::size_t cost(BlockChanges& changes) {
  if (changes.fresh || !changes.has_steps) return kCannot;
  FlatPlan& plan = changes.flat;
  find_steps(changes, plan);
  choose_form(changes, plan);
  std::uint64_t bits = changes.list.plane_bits() + changes.list.unary_bits() + changes.count;
  if (!plan.all) bits += plan.exception_list.plane_bits() + plan.exception_list.unary_bits();
  bits += changes.kernels->gammas.lengths(plan.coded.data(), plan.coded_count, plan.exponent, plan.lengths.need(plan.coded_count));
  std::byte varint[kMaxVarintBytes];
  const std::size_t counts = store_varint(varint, changes.count) + (plan.all ? 0 : store_varint(varint, plan.exception_list.count));
  return counts + 1 + static_cast<std::size_t>((bits + 7) / 8);
}

void encode(BlockChanges& changes, std::byte* out) {
  const kernels::ListKernels& lists = changes.kernels->lists;
  const FlatPlan& plan = changes.flat;
  const RiceList& exceptions = plan.exception_list;
  out += store_varint(out, changes.count);
  *out++ = static_cast<std::byte>(plan.exponent | (plan.all ? kAllFlag : 0));
  if (!plan.all) out += store_varint(out, exceptions.count);
  kernels::BitWriter bits{out};
  lists.pack_planes(changes.list.remainders.data(), changes.count, changes.list.shift, bits);
  for (std::size_t i = 0; i < changes.count; i += 64) {
    bits.put(plan.negative.data()[i / 64], static_cast<unsigned>(std::min<std::size_t>(64, changes.count - i)));
  }
  if (!plan.all) lists.pack_planes(exceptions.remainders.data(), exceptions.count, exceptions.shift, bits);
  lists.write_marks(changes.list.marks.data(), changes.count, changes.flags.data(), bits);
  if (!plan.all) lists.write_marks(exceptions.marks.data(), exceptions.count, changes.flags.data(), bits);
  changes.kernels->gammas.write(plan.coded.data(), plan.lengths.data(), plan.coded_count, plan.exponent, bits);
  bits.finish();
}

// Multiplies the steps (+1 or -1 so far) at `changes` (nullptr: all) by m + least. False if one leaves its type.
template <class T>
bool scale_steps(std::span<const std::uint64_t> coded, const std::uint16_t* changes, unsigned least, std::byte* steps) {
  const std::uint64_t largest = (std::uint64_t{1} << (8 * sizeof(T) - 1)) - least;  // m of the most negative step
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

struct Head {
  std::size_t count = 0;
  std::size_t exceptions = 0;  // m's
  unsigned exponent = 0;
  bool all = false;
};

const char* read_head(std::span<const std::byte>& payload, BlockShape shape, Head& head) {
  if (!read_change_count(payload, shape, head.count)) return "has an invalid change count";
  ByteReader reader(payload);
  std::uint8_t parameters = 0;
  std::uint64_t exceptions = head.count;
  if (!reader.read(parameters) || parameters >= 2 * kAllFlag) return "has invalid parameters";
  head.all = (parameters & kAllFlag) != 0;
  head.exponent = parameters & kExponentMask;
  if (!head.all && (!reader.read_varint(exceptions) || exceptions > head.count)) return "has more exceptions than changes";
  if (exceptions == 0 && head.exponent != 0) return "has an exponent and nothing to use it for";
  head.exceptions = static_cast<std::size_t>(exceptions);
  payload = payload.subspan(reader.position());
  return nullptr;
}

const char* decode(BlockShape shape, std::span<const std::byte> payload, const kernels::KernelSet& kernels, DecodedBlock& block) {
  Head head;
  if (const char* wrong = read_head(payload, shape, head)) return wrong;
  const kernels::ListKernels& lists = kernels.lists;
  make_room(block, shape, head.count);
  block.kind = DecodedKind::kSteps;
  block.fresh = false;
  const std::size_t listed = head.all ? 0 : head.exceptions;
  std::uint16_t* exceptions = block.exceptions.need(listed + kernels::kPositionSlack);

  BitCursor bits{payload.data(), 0, 8 * std::uint64_t{payload.size()}};
  if (!block.list.read_planes(lists, bits, shape.elements, head.count)) return "ends inside its positions";
  if (bits.left() < head.count) return "ends inside its signs";
  kernels.of(shape.datatype).unit_steps(bits.bytes, bits.at, head.count, block.values.data());
  bits.at += head.count;
  if (!block.exception_list.read_planes(lists, bits, head.count, listed)) return "ends inside its exceptions";
  if (!block.list.read_unary(lists, bits, block.positions.data())) return "has positions past its end";
  if (!block.exception_list.read_unary(lists, bits, exceptions)) return "has exceptions past its changes";
  std::uint64_t* coded = block.coded.need(head.exceptions);
  const std::uint64_t used = kernels.gammas.read(bits.bytes, bits.at, bits.left(), head.exceptions, head.exponent,
                                                 block.lengths.need(head.exceptions), coded);
  if (used == kernels::kNoGammas) return "ends inside its magnitudes, or has one past 2^63";
  bits.at += used;
  const bool valid = with_width(shape.element_bytes(), [&](auto zero) {
    return scale_steps<decltype(zero)>({coded, head.exceptions}, head.all ? nullptr : exceptions, head.all ? 1 : 2,
                                       block.values.data());
  });
  if (!valid) return "has a step larger than its data type";
  return ends_cleanly(bits) ? nullptr : "does not end where its steps do";
}

}  // namespace

const BlockMode kFlatMode{3, "flat", false, false, cost, encode, decode};

}  // namespace sparcl::codec
