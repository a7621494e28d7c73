#include <algorithm>
#include <iterator>

#include "tools/perf/perf_operation.hpp"

namespace sparcl::perf {
namespace {

// A rank's share of the elements: some are common to all ranks, the rest is random.
std::vector<std::uint64_t> support_of(const Options& options, std::uint64_t count, int rank) {
  const std::vector<std::uint64_t> shared =
      Mask::random(count, options.density * options.overlap, 1).indices();
  const std::vector<std::uint64_t> own =
      Mask::random(count, options.density * (1 - options.overlap),
                   100 + static_cast<std::uint64_t>(rank))
          .indices();
  std::vector<std::uint64_t> both;
  both.reserve(shared.size() + own.size());
  std::set_union(shared.begin(), shared.end(), own.begin(), own.end(), std::back_inserter(both));
  return both;
}

// A sum over the ranks' vectors: by an all-reduce, or by a round of an aggregator.
class SparseSumOperation final : public Operation {
 public:
  SparseSumOperation(const Options& options, std::uint64_t count, Comm& comm)
      : options_(options),
        type_(element_type(options.dtype)),
        count_(count),
        rank_(comm.rank()),
        ranks_(comm.size()),
        indices_(support_of(options, count, rank_)),
        values_(indices_.size() * type_.bytes),
        dense_(count * type_.bytes),
        dense_sum_(dense_.size()) {
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      put(type_, values_.data(), i, value_of(rank_, indices_[i]));
      put(type_, dense_.data(), indices_[i], value_of(rank_, indices_[i]));
    }
    const double most = std::min(1.0, options.density * ranks_ * 1.02);
    const std::size_t room =
        std::min(count, static_cast<std::uint64_t>(most * static_cast<double>(count)) + 64);
    out_indices_.resize(room);
    out_values_.resize(room * type_.bytes);
    if (options.op != "aggregate") return;
    sparclAggregatorOptions_t summing = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
    summing.mean = sparclMeanNone;
    check(sparclAggregatorCreate(&aggregator_, count, &summing));
  }
  ~SparseSumOperation() override { (void)sparclAggregatorDestroy(aggregator_); }
  SparseSumOperation(const SparseSumOperation&) = delete;
  SparseSumOperation& operator=(const SparseSumOperation&) = delete;

  void reset() override {
    std::fill(out_indices_.begin(), out_indices_.end(), 0);
    std::fill(out_values_.begin(), out_values_.end(), std::byte{0xa5});
  }
  void call(Comm& comm) override {
    if (aggregator_ != nullptr) return aggregate(comm);
    check(sparclAllReduceSparse(values_.data(), indices_.data(), indices_.size(), count_,
                                out_values_.data(), out_indices_.data(), &out_nnz_,
                                out_indices_.size(), type_.type, sparclSum, nullptr, comm.get(),
                                nullptr),
          comm.get());
  }
  void aggregate(Comm& comm) {
    sparclAggregateOptions_t options = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
    options.aggregator = aggregator_;
    options.ranks = options_.ranks.empty() ? nullptr : options_.ranks.data();
    options.rank_count = options_.ranks.size();
    check(sparclAggregate(values_.data(), indices_.data(), indices_.size(), count_, 1,
                          out_values_.data(), out_indices_.data(), &out_nnz_, out_indices_.size(),
                          type_.type, &options, comm.get(), nullptr),
          comm.get());
  }
  void dense(bool in_pieces) override {
    dense_all_reduce(type_, dense_.data(), dense_sum_.data(), count_, in_pieces);
  }

  std::uint64_t wrong() override {
    constexpr std::int8_t kAbsent = 127;
    std::vector<std::int8_t> sums(count_, kAbsent);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const std::uint64_t i : support_of(options_, count_, rank))
        sums[i] = static_cast<std::int8_t>((sums[i] == kAbsent ? 0 : sums[i]) + value_of(rank, i));
    }
    std::uint64_t wrong = 0, at = 0;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (sums[i] == kAbsent) continue;
      wrong +=
          at >= out_nnz_ || out_indices_[at] != i || !holds(type_, out_values_.data(), at, sums[i]);
      ++at;
    }
    return wrong + (out_nnz_ > at ? out_nnz_ - at : 0);
  }

 private:
  Options options_;
  ElementType type_;
  std::uint64_t count_;
  int rank_, ranks_;
  std::vector<std::uint64_t> indices_;
  std::vector<std::byte> values_, dense_, dense_sum_;
  std::vector<std::uint64_t> out_indices_;
  std::vector<std::byte> out_values_;
  std::size_t out_nnz_ = 0;
  sparclAggregator_t aggregator_ = nullptr;  // of the operation aggregate
};

}  // namespace

std::unique_ptr<Operation> make_all_reduce_sparse(const Options& options, std::uint64_t count,
                                                  Comm& comm) {
  return std::make_unique<SparseSumOperation>(options, count, comm);
}

}  // namespace sparcl::perf
