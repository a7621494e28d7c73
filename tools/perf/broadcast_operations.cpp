#include <algorithm>

#include "tools/perf/perf_operation.hpp"

namespace sparcl::perf {
namespace {

// A share of the elements, randomly spread, the same on all ranks.
std::vector<std::uint64_t> strewn(const Options& options, std::uint64_t count) {
  return Mask::random(count, options.density, 2).indices();
}

// The root's array alternates between two states.
class DeltaOperation final : public Operation {
 public:
  DeltaOperation(const Options& options, std::uint64_t count, Comm& comm)
      : type_(element_type(options.dtype)),
        count_(count),
        is_root_(comm.rank() == 0),
        changed_(strewn(options, count)) {
    for (std::vector<std::byte>* array : {&held_, &other_, &dense_}) {
      array->resize(count * type_.bytes);
      for (std::uint64_t i = 0; i < count; ++i) put(type_, array->data(), i, value_of(0, i));
    }
    if (is_root_) write(other_);
  }

  void reset() override {
    at_b_ = !at_b_;
    if (is_root_) std::swap(held_, other_);
  }
  void call(Comm& comm) override {
    check(sparclBroadcastDelta(held_.data(), other_.data(), count_, type_.type, 0, nullptr,
                               comm.get(), nullptr),
          comm.get());
  }
  void dense(bool in_pieces) override { dense_broadcast(type_, dense_.data(), count_, in_pieces); }

  std::uint64_t wrong() override {
    std::uint64_t wrong = 0;
    auto next = changed_.begin();
    for (std::uint64_t i = 0; i < count_; ++i) {
      const bool is_changed = next != changed_.end() && *next == i;
      if (is_changed) ++next;
      wrong += !holds(type_, held_.data(), i, value_of(0, i) + (is_changed && at_b_ ? 8 : 0));
    }
    return wrong;
  }

 private:
  void write(std::vector<std::byte>& array) const {
    for (const std::uint64_t i : changed_) put(type_, array.data(), i, value_of(0, i) + 8);
  }

  ElementType type_;
  std::uint64_t count_;
  bool is_root_;
  std::vector<std::uint64_t> changed_;
  std::vector<std::byte> held_, other_, dense_;
  bool at_b_ = false;
};

class SparseOperation final : public Operation {
 public:
  SparseOperation(const Options& options, std::uint64_t count, Comm& comm)
      : type_(element_type(options.dtype)),
        count_(count),
        is_root_(comm.rank() == 0),
        sent_(strewn(options, count)),
        indices_(sent_),
        values_(sent_.size() * type_.bytes),
        dense_(count * type_.bytes) {
    reset();
  }

  void reset() override {
    ++version_;
    std::fill(dense_.begin(), dense_.end(), std::byte{0});
    for (std::uint64_t i = 0; i < sent_.size(); ++i)
      put(type_, values_.data(), i, is_root_ ? value_of(version_, sent_[i]) : 0);
    if (!is_root_) std::fill(indices_.begin(), indices_.end(), 0);
  }
  void call(Comm& comm) override {
    std::size_t nnz = is_root_ ? sent_.size() : 0;
    check(sparclBroadcastSparse(values_.data(), indices_.data(), &nnz, indices_.size(), type_.type,
                                0, nullptr, comm.get(), nullptr),
          comm.get());
  }
  void dense(bool in_pieces) override { dense_broadcast(type_, dense_.data(), count_, in_pieces); }

  std::uint64_t wrong() override {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < sent_.size(); ++i)
      wrong +=
          indices_[i] != sent_[i] || !holds(type_, values_.data(), i, value_of(version_, sent_[i]));
    return wrong;
  }

 private:
  ElementType type_;
  std::uint64_t count_;
  bool is_root_;
  int version_ = 0;
  std::vector<std::uint64_t> sent_, indices_;
  std::vector<std::byte> values_, dense_;
};

}  // namespace

std::unique_ptr<Operation> make_broadcast_delta(const Options& options, std::uint64_t count,
                                                Comm& comm) {
  return std::make_unique<DeltaOperation>(options, count, comm);
}

std::unique_ptr<Operation> make_broadcast_sparse(const Options& options, std::uint64_t count,
                                                 Comm& comm) {
  return std::make_unique<SparseOperation>(options, count, comm);
}

}  // namespace sparcl::perf
