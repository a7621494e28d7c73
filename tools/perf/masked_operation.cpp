#include <algorithm>

#include "tools/perf/perf_operation.hpp"

namespace sparcl::perf {
namespace {

constexpr std::byte kUntouched{0xa5};

class MaskedOperation final : public Operation {
 public:
  MaskedOperation(const Options& options, std::uint64_t count, Comm& comm)
      : type_(element_type(options.dtype)),
        count_(count),
        redraw_(options.redraw),
        ranks_(comm.size()),
        send_(count * type_.bytes),
        receive_(send_.size()),
        dense_(send_.size()),
        mask_(Mask::random(count, options.density, 1)) {
    const int rank = comm.rank();
    for (std::uint64_t i = 0; i < count; ++i) put(type_, send_.data(), i, value_of(rank, i));
  }

  void reset() override { std::fill(receive_.begin(), receive_.end(), kUntouched); }
  void call(Comm& comm) override {
    if (redraw_) mask_.set_step(++step_);
    check(sparclAllReduceMasked(send_.data(), receive_.data(), count_, type_.type, sparclSum,
                                mask_.get(), nullptr, nullptr, comm.get(), nullptr),
          comm.get());
  }

  void dense(bool in_pieces) override {
    dense_all_reduce(type_, send_.data(), dense_.data(), count_, in_pieces);
  }

  std::uint64_t wrong() override {
    std::uint64_t wrong = 0;
    for (const std::uint64_t i : mask_.indices()) {
      int sum = 0;
      for (int rank = 0; rank < ranks_; ++rank) sum += value_of(rank, i);
      wrong += !holds(type_, receive_.data(), i, sum);
      std::fill_n(receive_.begin() + static_cast<std::ptrdiff_t>(i * type_.bytes), type_.bytes,
                  kUntouched);
    }
    for (const std::byte byte : receive_) wrong += byte != kUntouched;  // outside the mask
    return wrong;
  }

 private:
  ElementType type_;
  std::uint64_t count_;
  bool redraw_;
  int ranks_;
  std::vector<std::byte> send_, receive_, dense_;
  Mask mask_;
  std::uint64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Operation> make_all_reduce_masked(const Options& options, std::uint64_t count,
                                                  Comm& comm) {
  return std::make_unique<MaskedOperation>(options, count, comm);
}

}  // namespace sparcl::perf
