#include "tests/random/top_k_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "tests/random/scalar_sums.hpp"
#include "tests/support/few_bits_reference.hpp"

namespace sparcl::test {
namespace {

// Of equal keys the lower index comes first. NaN > infinity > finite.
template <class A>
std::uint64_t magnitude_key(A value) {
  if constexpr (std::is_same_v<A, float>) return std::bit_cast<std::uint32_t>(value) & 0x7fff'ffffu;
  if constexpr (std::is_same_v<A, double>)
    return std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63);
  if constexpr (std::is_integral_v<A>)
    return value < A{0} ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                        : static_cast<std::uint64_t>(value);
}

template <class A>
std::vector<std::size_t> largest_of(const std::vector<A>& values, std::vector<std::size_t> among,
                                    std::size_t k) {
  const auto comes_before = [&](std::size_t i, std::size_t j) {
    const std::uint64_t a = magnitude_key(values[i]), b = magnitude_key(values[j]);
    return a != b ? a > b : i < j;
  };
  if (among.size() > k) {
    std::nth_element(among.begin(), among.begin() + static_cast<std::ptrdiff_t>(k), among.end(),
                     comes_before);
    among.resize(k);
  }
  return among;
}

template <class A>
class TopK {
 public:
  TopK(const TopKRule& rule, std::size_t ranks, std::size_t count)
      : rule_(rule), ranks_(ranks), count_(count), acc_(ranks), sent_(ranks), selects_(ranks) {}

  TopKOutcome run(const std::vector<ByteList>& given, std::vector<ByteList>& residuals) {
    TopKOutcome outcome;
    for (std::size_t r = 0; r < ranks_; ++r)
      outcome.selected.push_back(select(r, given[r], residuals[r]));
    const std::vector<std::size_t> kept = sum();
    outcome.kept = kept.size();
    const std::size_t width = width_of(rule_.datatype);
    outcome.received.resize(count_ * width);
    for (const std::size_t i : kept) {
      write_result(rule_.is_mean ? sparclAvg : sparclSum, rule_.datatype, sums_[i], ranks_,
                   outcome.received.data() + i * width);
      for (std::size_t r = 0; r < ranks_; ++r)
        acc_[r][i] = contributes(r, i) ? rest_of(acc_[r][i], sent_[r][i]) : acc_[r][i];
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (!residuals[r].empty())
        std::memcpy(residuals[r].data(), acc_[r].data(), residuals[r].size());
    }
    return outcome;
  }

 private:
  std::size_t select(std::size_t r, const ByteList& given, const ByteList& residual) {
    acc_[r].resize(count_);
    selects_[r].resize(count_);
    std::vector<std::size_t> nonzero;
    for (std::size_t i = 0; i < count_; ++i) {
      A& acc = acc_[r][i] = widened<A>(rule_.datatype, given.data() + i * width_of(rule_.datatype));
      if (!residual.empty()) {
        A left;
        std::memcpy(&left, residual.data() + i * sizeof left, sizeof left);
        acc = canonical(combined(sparclSum, rule_.datatype, left, acc));
      }
      if (acc != A{0}) nonzero.push_back(i);
    }
    const std::vector<std::size_t> selected = largest_of(acc_[r], std::move(nonzero), rule_.k);
    for (const std::size_t i : selected) selects_[r][i] = true;
    return selected.size();
  }

  bool contributes(std::size_t r, std::size_t i) const {
    return rule_.mode == sparclTopKUnion || selects_[r][i];
  }

  // The sums of all that any rank has selected; which of them are kept.
  std::vector<std::size_t> sum() {
    sums_.resize(count_);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < count_; ++i) {
      if (std::any_of(selects_.begin(), selects_.end(),
                      [i](const std::vector<bool>& selects) { return selects[i]; }))
        all.push_back(i);
    }
    for (std::size_t r = 0; r < ranks_; ++r) send(r, all);
    std::vector<std::optional<A>> by_rank(ranks_);
    for (const std::size_t i : all) {
      for (std::size_t r = 0; r < ranks_; ++r)
        by_rank[r] = contributes(r, i) ? std::optional<A>(sent_[r][i]) : std::nullopt;
      sums_[i] = canonical(*over_ranks<A>(sparclSum, rule_.datatype, by_rank));
    }
    return rule_.mode == sparclTopKGlobal ? largest_of(sums_, std::move(all), rule_.k) : all;
  }

  // What the others see of what a rank has at elements to which it contributes.
  void send(std::size_t r, const std::vector<std::size_t>& all) {
    sent_[r].resize(count_);
    std::vector<std::size_t> own;
    for (const std::size_t i : all) {
      if (contributes(r, i)) own.push_back(i);
    }
    for (const std::size_t i : own) sent_[r][i] = sent_of(acc_[r][i]);
    if constexpr (std::is_same_v<A, float>) {
      for (std::size_t first = 0; rule_.wire == 2 && first < own.size(); first += 128)
        send_scaled(r,
                    std::span(own).subspan(first, std::min<std::size_t>(128, own.size() - first)));
      const int bits = rule_.wire == 3 ? 4 : rule_.wire == 4 ? 2 : 0;
      for (std::size_t first = 0; bits > 0 && first < own.size(); first += 128)
        send_few_bits(
            r, bits, std::span(own).subspan(first, std::min<std::size_t>(128, own.size() - first)));
    }
  }

  void send_few_bits(std::size_t r, int bits, std::span<const std::size_t> group) {
    std::vector<float> values;
    for (const std::size_t i : group) values.push_back(static_cast<float>(acc_[r][i]));
    round_few_bits(bits, values);
    for (std::size_t n = 0; n < group.size(); ++n)
      sent_[r][group[n]] = canonical(static_cast<A>(values[n]));
  }

  // These share the least power of two with which the largest has seven bits.
  void send_scaled(std::size_t r, std::span<const std::size_t> group) {
    double largest = 0;
    for (const std::size_t i : group) {
      const auto size = std::abs(static_cast<double>(acc_[r][i]));
      if (!std::isfinite(size)) return send_exactly(r, group);
      largest = std::max(largest, size);
    }
    double unit = 0x1p-149;
    while (std::nearbyint(largest / unit) > 127 && unit < 0x1p121) unit *= 2;
    for (const std::size_t i : group)
      sent_[r][i] = canonical(static_cast<A>(
          std::clamp(std::nearbyint(static_cast<double>(acc_[r][i]) / unit), -127.0, 127.0) *
          unit));
  }

  void send_exactly(std::size_t r, std::span<const std::size_t> group) {
    for (const std::size_t i : group) sent_[r][i] = canonical(acc_[r][i]);
  }

  A sent_of(A value) const {
    if constexpr (std::is_same_v<A, float>) {
      const sparclDataType_t wire = rule_.wire == 1 ? sparclBfloat16 : rule_.datatype;
      unsigned char bytes[8];
      put_number(wire, value, bytes);
      return canonical(static_cast<A>(number_at(wire, bytes)));
    }
    return value;
  }

  static A rest_of(A value, A seen) {
    if constexpr (std::is_same_v<A, float>) {
      return seen == value || std::isnan(value) ? A{0} : value - seen;
    }
    return A{0};
  }

  TopKRule rule_;
  std::size_t ranks_, count_;
  std::vector<std::vector<A>> acc_;         // by rank
  std::vector<std::vector<A>> sent_;        // by rank, as the others see it
  std::vector<std::vector<bool>> selects_;  // by rank
  std::vector<A> sums_;
};

}  // namespace

std::size_t residual_width(sparclDataType_t datatype) {
  return with_accumulator(datatype, [](auto zero) { return sizeof zero; });
}

TopKOutcome top_k_of(const TopKRule& rule, const std::vector<ByteList>& given,
                     std::vector<ByteList>& residuals) {
  const std::size_t count = given[0].size() / width_of(rule.datatype);
  return with_accumulator(rule.datatype, [&](auto zero) {
    return TopK<decltype(zero)>(rule, given.size(), count).run(given, residuals);
  });
}

}  // namespace sparcl::test
