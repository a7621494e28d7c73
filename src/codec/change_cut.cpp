#include "src/codec/change_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "src/base/float_environment.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/change_scan.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/top_k.hpp"

namespace sparcl::codec {
namespace {

constexpr unsigned kIgnoredBits =
    48;  // bits of a double to ignore: the exponent and four bits of the mantissa remain
constexpr std::size_t kBins = std::size_t{1} << (63 - kIgnoredBits);
constexpr int kTrials = 10;

ArrayInput base_of(const EncodeInput& input) {
  return {{input.base.begin(), input.base.end()}, input.options.base_source};
}

// Calls visit(element, key) for every change that the rule leaves, in order.
template <class Visit>
Status for_each_change(const EncodeInput& input, Visit visit) {
  const FloatEnvironment exact;
  ChangeScan scan(input.map, input.options.hints, input.kernels);
  SPARCL_RETURN_IF_ERROR(scan.check());
  const ArrayInput base = base_of(input);
  const ArrayInput target{{input.target.begin(), input.target.end()}, input.options.target_source};
  BlockInput base_block, target_block;
  std::vector<Piece> pieces;
  std::vector<std::uint16_t> positions(kBlockElements + kernels::kPositionSlack);
  std::vector<std::byte> olds(kBlockElements * sizeof(std::uint64_t) + kernels::kValueSlackBytes);
  std::vector<std::byte> news(olds.size());
  for (std::uint64_t block = 0; block < input.map.block_count(); ++block) {
    const DataType type = input.map.block(block, pieces);
    FoundChanges changes{block, type, pieces, positions.data(), olds.data(), news.data(), 0};
    const BlockShape shape = shape_of(type, pieces);
    SPARCL_RETURN_IF_ERROR(scan.scan(base_block.read(base, shape, pieces),
                                     target_block.read(target, shape, pieces), pieces,
                                     {positions.data(), olds.data(), news.data()}, changes.count));
    if (input.options.rule != nullptr) changes.count = input.options.rule->keep(changes);
    const std::size_t width = element_bytes(type);
    for (std::size_t i = 0; i < changes.count; ++i)
      visit(block * kBlockElements + positions[i],
            change_key(type, olds.data() + i * width, news.data() + i * width));
  }
  return {};
}

Status check_base(const EncodeInput& input) {
  const ArrayInput base = base_of(input);
  for (std::uint32_t i = 0; i < base.arrays.size(); ++i) {
    if (!base.has(i) && input.map.arrays()[i].count > 0) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("array {} has no base: the first update of a state goes whole, without a cut",
                      i));
    }
  }
  return {};
}

class CountingSink : public ByteSink {
 public:
  std::byte* reserve(std::size_t bytes) override {
    room_.resize(std::max(room_.size(), bytes));
    return room_.data();
  }
  void commit(std::size_t used) override { total_ += used; }
  std::uint64_t total() const { return total_; }

 private:
  std::vector<std::byte> room_;
  std::uint64_t total_ = 0;
};

// Changes counted by bins of their size.
class Histogram {
 public:
  Histogram() : counts_(kBins) {}
  void add(std::uint64_t key) {
    ++counts_[key >> kIgnoredBits];
    ++total_;
  }
  std::uint64_t total() const { return total_; }

  struct Place {
    std::size_t bin;
    std::uint64_t inside;  // how many of the bin
  };
  // The bin that the k-th largest is in; 1 <= k <= total().
  Place find(std::uint64_t k) const {
    std::size_t bin = kBins - 1;
    for (; counts_[bin] < k; --bin) k -= counts_[bin];
    return {bin, k};
  }

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

Result<ChangeCut> cut_at(const EncodeInput& input, const Histogram& histogram, std::uint64_t k) {
  if (k == 0) return ChangeCut{std::numeric_limits<std::uint64_t>::max(), 0, 0};
  const Histogram::Place place = histogram.find(k);
  ChangeCut cut{static_cast<std::uint64_t>(place.bin) << kIgnoredBits, 0, kIgnoredBits};
  std::uint64_t left = place.inside;
  SPARCL_RETURN_IF_ERROR(for_each_change(input, [&](std::uint64_t element, std::uint64_t key) {
    if (left == 0 || key >> kIgnoredBits != place.bin) return;
    cut.end = element + 1;
    --left;
  }));
  return cut;
}

Result<std::uint64_t> encoded_bytes(const EncodeInput& input, const ChangeCut& cut) {
  const CutRule rule(cut);
  std::vector<const ChangeRule*> rules;
  if (input.options.rule != nullptr) rules.push_back(input.options.rule);
  rules.push_back(&rule);
  const EveryRule every(rules);
  EncodeOptions options = input.options;
  options.rule = &every;
  options.bring_forward = {};
  CountingSink sink;
  UpdateEncoder encoder(input.map, input.base, input.target, options, input.kernels);
  while (!encoder.finished())
    SPARCL_RETURN_IF_ERROR(encoder.step(std::numeric_limits<std::uint64_t>::max(), sink));
  return sink.total();
}

}  // namespace

Result<ChangeCut> cut_to_count(const EncodeInput& input, std::uint64_t k) {
  SPARCL_RETURN_IF_ERROR(check_base(input));
  LargestK largest(std::min(k, input.map.element_count()));
  SPARCL_RETURN_IF_ERROR(for_each_change(
      input, [&](std::uint64_t element, std::uint64_t key) { largest.add(element, key); }));
  const LargestK::Limit limit = largest.limit();
  return ChangeCut{limit.key, limit.end, 0};
}

Result<ChangeCut> cut_to_bytes(const EncodeInput& input, std::uint64_t bytes) {
  SPARCL_RETURN_IF_ERROR(check_base(input));
  Histogram histogram;
  SPARCL_RETURN_IF_ERROR(
      for_each_change(input, [&](std::uint64_t, std::uint64_t key) { histogram.add(key); }));

  struct Trial {
    std::uint64_t k;
    std::uint64_t bytes;
    ChangeCut cut;
  };
  const auto attempt = [&](std::uint64_t k) -> Result<Trial> {
    SPARCL_ASSIGN_OR_RETURN(const ChangeCut cut, cut_at(input, histogram, k));
    SPARCL_ASSIGN_OR_RETURN(const std::uint64_t size, encoded_bytes(input, cut));
    return Trial{k, size, cut};
  };

  Result<Trial> fits = attempt(0);
  if (!fits.ok()) return fits.status();
  if (fits->bytes > bytes) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("a budget of {} bytes: an update of this state without any change has {}",
                    bytes, fits->bytes));
  }
  Result<Trial> above = attempt(histogram.total());
  if (!above.ok()) return above.status();
  if (above->bytes <= bytes) return above->cut;
  for (int i = 0; i < kTrials && fits->bytes < bytes - bytes / 50 && above->k - fits->k > 1; ++i) {
    // Between the two by interpolation, a little on the safe side and never at the ends: more
    // changes cost fewer bytes each, so that a straight line leads below.
    const double share =
        static_cast<double>(bytes - fits->bytes) / static_cast<double>(above->bytes - fits->bytes);
    const double guess = static_cast<double>(fits->k) + std::clamp(share * 0.995, 0.02, 0.98) *
                                                            static_cast<double>(above->k - fits->k);
    const std::uint64_t k =
        std::clamp(static_cast<std::uint64_t>(guess), fits->k + 1, above->k - 1);
    Result<Trial> next = attempt(k);
    if (!next.ok()) return next.status();
    (next->bytes <= bytes ? fits : above) = next;
  }
  return fits->cut;
}

}  // namespace sparcl::codec
