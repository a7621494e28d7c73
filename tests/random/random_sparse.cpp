#include <fmt/format.h>

#include <algorithm>

#include "tests/random/flight_roles.hpp"

namespace sparcl::test {
namespace {

class SparseFlight final : public RandomFlight {
 public:
  SparseFlight(const Scene& scene, SeededRandom& random)
      : scene_(scene),
        roles_(scene, random, {Slip::kRoot, Slip::kType, Slip::kCapacity, Slip::kOrder}),
        type_(pick(kAllTypes, random)) {
    std::size_t entries = random.chance(0.5) ? random.below(50) : draw_count(random) / 2;
    draw_indices(entries, random);
    entries = sent_indices_.size();
    sent_values_ = make_values(type_, entries, static_cast<Style>(random.below(3)), random);
    capacity_ = entries + (random.chance(0.5) ? 0 : random.below(10));
    settle_slip();

    const bool is_odd = scene.rank == roles_.odd;
    is_root_ = scene.rank == roles_.root;
    root_ = roles_.slip == Slip::kRoot && is_odd ? roles_.another_root(scene) : roles_.root;
    own_type_ = roles_.slip == Slip::kType && is_odd
                    ? (type_ == sparclUint8 ? sparclInt8 : sparclUint8)
                    : type_;
    own_capacity_ = roles_.slip == Slip::kCapacity && is_odd ? entries - 1 : capacity_;
    values_ = Fenced(std::max(own_capacity_, entries) * width_of(type_));
    indices_ = Fenced(std::max(own_capacity_, entries) * sizeof(std::uint64_t));
    if (is_root_) {
      put(values_, sent_values_);
      put(indices_, index_bytes());
      nnz_ = entries;
    }
    values_before_.assign(values_.bytes().begin(), values_.bytes().end());
    indices_before_.assign(indices_.bytes().begin(), indices_.bytes().end());
    nnz_before_ = nnz_;
  }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    auto* indices = reinterpret_cast<std::uint64_t*>(
        indices_.data());  // the fence is a multiple of its alignment
    return request != nullptr
               ? sparclIBroadcastSparse(values_.data(), indices, &nnz_, own_capacity_, own_type_,
                                        root_, nullptr, comm, nullptr, request)
               : sparclBroadcastSparse(values_.data(), indices, &nnz_, own_capacity_, own_type_,
                                       root_, nullptr, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    ByteList values = values_before_, indices = indices_before_;
    std::size_t nnz = nnz_before_;
    if (result == sparclSuccess) {
      const ByteList sent = index_bytes();
      std::copy(sent_values_.begin(), sent_values_.end(), values.begin());
      std::copy(sent.begin(), sent.end(), indices.begin());
    }
    if (result == sparclSuccess || result == sparclTruncated) nnz = sent_indices_.size();
    if (!values_.holds(values)) wrong += "the values are others; ";
    if (!indices_.holds(indices)) wrong += "the indices are others; ";
    if (nnz_ != nnz) wrong += fmt::format("nnz is {}, not {}; ", nnz_, nnz);
    return wrong;
  }

  std::string describe() const override {
    return fmt::format("BroadcastSparse, {} entries of type {}, capacity {}, root {}{}",
                       sent_indices_.size(), static_cast<int>(type_), capacity_, roles_.root,
                       name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  void draw_indices(std::size_t entries, SeededRandom& random) {
    constexpr std::array<std::uint64_t, 5> kGaps{1, 3, 100, 100'000, std::uint64_t{1} << 44};
    const std::uint64_t gap = pick(kGaps, random);
    std::uint64_t index = random.below(gap);
    for (std::size_t i = 0; i < entries && index < std::uint64_t{1} << 62;
         ++i, index += 1 + random.below(gap))
      sent_indices_.push_back(index);
  }

  void settle_slip() {
    const bool needs_other =
        roles_.slip == Slip::kCapacity && (roles_.odd == roles_.root || sent_indices_.empty());
    const bool needs_two = roles_.slip == Slip::kOrder && sent_indices_.size() < 2;
    if (needs_other || needs_two) roles_.slip = Slip::kNone;
    if (roles_.slip == Slip::kOrder) {
      roles_.odd = roles_.root;
      std::swap(sent_indices_.front(), sent_indices_.back());
    }
    expected_ = roles_.slip == Slip::kNone       ? sparclSuccess
                : roles_.slip == Slip::kCapacity ? sparclTruncated
                : roles_.slip == Slip::kOrder    ? sparclInvalidArgument
                                                 : sparclMismatch;
  }

  ByteList index_bytes() const {
    const auto* begin = reinterpret_cast<const unsigned char*>(sent_indices_.data());
    return {begin, begin + sent_indices_.size() * sizeof(std::uint64_t)};
  }

  static void put(Fenced& into, const ByteList& bytes) {
    std::copy(bytes.begin(), bytes.end(), into.data());
  }

  Scene scene_;
  Roles roles_;
  sparclDataType_t type_, own_type_ = sparclFloat32;
  std::vector<std::uint64_t> sent_indices_;
  ByteList sent_values_, values_before_, indices_before_;
  std::size_t capacity_ = 0, own_capacity_ = 0;
  Fenced values_, indices_;
  std::size_t nnz_ = 4'711, nnz_before_ = 0;
  bool is_root_ = false;
  int root_ = 0;
  sparclResult_t expected_ = sparclSuccess;
};

}  // namespace

std::unique_ptr<RandomFlight> random_sparse(const Scene& scene, SeededRandom& random) {
  return std::make_unique<SparseFlight>(scene, random);
}

}  // namespace sparcl::test
