#include <cstring>
#include <span>

#include "tools/perf/perf_operation.hpp"

namespace sparcl::perf {
namespace {

// Gradients of which each rank selects a share (--density), with error feedback. The residual
// continues, as in steps of a training.
class TopKOperation final : public Operation {
 public:
  TopKOperation(const Options& options, std::uint64_t count, Comm& comm)
      : type_(element_type(options.dtype)),
        count_(count),
        k_(static_cast<std::uint64_t>(options.density * static_cast<double>(count))),
        ranks_(comm.size()),
        rank_(comm.rank()),
        shared_(static_cast<std::uint64_t>(options.overlap * kShares)),
        feedback_(count, type_.type),
        send_(count * type_.bytes),
        receive_(send_.size()),
        dense_(send_.size()) {
    options_.mode = options.mode == "union"      ? sparclTopKUnion
                    : options.mode == "selected" ? sparclTopKSelected
                                                 : sparclTopKGlobal;
    options_.wire = options.wire == "exact"      ? sparclWireSame
                    : options.wire == "bfloat16" ? sparclWireBfloat16
                    : options.wire == "int8"     ? sparclWireInt8
                    : options.wire == "int4"     ? sparclWireInt4
                                                 : sparclWireInt2;
    for (std::uint64_t i = 0; i < count; ++i) put(type_, send_.data(), i, gradient(rank_, i));
  }

  void reset() override { feedback_.reset(); }
  void call(Comm& comm) override {
    check(sparclAllReduceTopK(send_.data(), receive_.data(), count_, k_, type_.type, sparclSum,
                              feedback_.get(), &options_, comm.get(), nullptr),
          comm.get());
  }
  void dense(bool in_pieces) override {
    dense_all_reduce(type_, send_.data(), dense_.data(), count_, in_pieces);
  }

  // Residuals began at zero, so the values of all ranks are in the result and the residuals. A rank
  // sends whole numbers.
  std::uint64_t wrong() override {
    std::vector<float> given(count_), left(count_);
    for (std::uint64_t i = 0; i < count_; ++i) {
      for (int rank = 0; rank < ranks_; ++rank) given[i] += static_cast<float>(gradient(rank, i));
    }
    if (type_.type != sparclFloat32) return 0;  // tests check the results of the other types
    const std::span<const float> mine = feedback_.residual<float>();
    MPI_Allreduce(mine.data(), left.data(), static_cast<int>(count_), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < count_; ++i) {
      float got;
      std::memcpy(&got, receive_.data() + 4 * i, 4);
      wrong += got + left[i] != given[i];
    }
    return wrong;
  }

 private:
  static constexpr std::uint64_t kShares = 1 << 16;

  // Whole numbers with a long tail: few are large. All ranks have the same value at --overlap of
  // the elements.
  int gradient(int rank, std::uint64_t element) const {
    const bool is_shared = (element + 1) * 0xA0761D6478BD642F >> 48 < shared_;
    const std::uint64_t seed = is_shared ? 0 : static_cast<std::uint64_t>(rank) + 1;
    const std::uint64_t mixed = (element + 1) * 0x9E3779B97F4A7C15 + seed * 0xD2E7470EE14C6C93;
    const std::uint64_t bits = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 >> 20;
    const int size = 1 + static_cast<int>(bits % 97) * static_cast<int>(bits / 97 % 101);
    return (bits >> 40 & 1) != 0 ? size : -size;
  }

  ElementType type_;
  std::uint64_t count_, k_;
  int ranks_, rank_;
  std::uint64_t shared_;  // of kShares
  Feedback feedback_;
  sparclTopKOptions_t options_ = SPARCL_TOPK_OPTIONS_INITIALIZER;
  std::vector<std::byte> send_, receive_, dense_;
};

}  // namespace

std::unique_ptr<Operation> make_all_reduce_top_k(const Options& options, std::uint64_t count,
                                                 Comm& comm) {
  return std::make_unique<TopKOperation>(options, count, comm);
}

}  // namespace sparcl::perf
