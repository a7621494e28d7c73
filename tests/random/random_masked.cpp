#include <fmt/format.h>

#include <algorithm>

#include "tests/random/flight_roles.hpp"
#include "tests/random/scalar_sums.hpp"

namespace sparcl::test {
namespace {

enum class MaskKind : std::uint8_t { kIndices, kRandom, kBlocks };

// How a mask is made; the same on all ranks, but for slips.
struct MaskPlan {
  MaskKind kind = MaskKind::kRandom;
  std::size_t count = 0;
  std::vector<std::uint64_t> indices;
  double density = 0;
  std::size_t block = 1;
  std::uint64_t seed = 0, step = 0;

  sparclMask_t make() const {
    sparclMask_t mask = nullptr;
    if (kind == MaskKind::kIndices)
      (void)sparclMaskCreateIndices(&mask, indices.data(), indices.size(), count);
    if (kind == MaskKind::kRandom) (void)sparclMaskCreateRandom(&mask, count, density, seed);
    if (kind == MaskKind::kBlocks) (void)sparclMaskCreateBlocks(&mask, count, block, density, seed);
    if (step != 0) (void)sparclMaskSetStep(mask, step);
    return mask;
  }
};

MaskPlan draw_mask(SeededRandom& random) {
  constexpr std::array<std::size_t, 5> kBlocks{1, 7, 64, 1'000, 70'000};
  MaskPlan plan;
  plan.kind = static_cast<MaskKind>(random.below(3));
  plan.count = draw_sum_count(random);
  plan.density = pick(kShares, random);
  plan.block = pick(kBlocks, random);
  plan.seed = random.next();
  plan.step = random.chance(0.5) ? 0 : random.next();
  for (std::uint64_t i = 0; i < plan.count && plan.kind == MaskKind::kIndices; ++i) {
    if (random.chance(plan.density)) plan.indices.push_back(i);
  }
  return plan;
}

class MaskedFlight final : public RandomFlight {
 public:
  MaskedFlight(const Scene& scene, SeededRandom& random)
      : scene_(scene),
        roles_(scene, random, {Slip::kMask, Slip::kType, Slip::kOperator, Slip::kNull}),
        type_(pick(kAllTypes, random)),
        op_(draw_op(type_, random)),
        plan_(draw_mask(random)),
        in_place_(random.chance(0.5)) {
    const auto style = static_cast<Style>(random.below(4));
    const std::uint64_t seed = random.next();
    for (int rank = 0; rank < scene.ranks; ++rank) {
      SeededRandom own(mix64(seed + static_cast<std::uint64_t>(rank)));
      given_.push_back(make_values(type_, plan_.count, style, own));
    }
    const ByteList& mine = given_[static_cast<std::size_t>(scene.rank)];
    before_ = in_place_ ? mine : ByteList(mine.size(), 0x5a);
    held_ = Fenced(mine.size(), random.below(4) * width_of(type_));
    held_.set(before_);
    draw_mask_indices();
    settle_slip();
  }
  ~MaskedFlight() override { (void)sparclMaskDestroy(mask_); }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    const void* send =
        in_place_ ? held_.data() : given_[static_cast<std::size_t>(scene_.rank)].data();
    if (is_odd(Slip::kNull)) send = nullptr;
    const sparclDataType_t type =
        is_odd(Slip::kType) ? (type_ == sparclUint8 ? sparclInt8 : sparclUint8) : type_;
    const sparclRedOp_t op =
        is_odd(Slip::kOperator) ? (op_ == sparclMax ? sparclMin : sparclMax) : op_;
    return request != nullptr
               ? sparclIAllReduceMasked(send, held_.data(), plan_.count, type, op, mask_, nullptr,
                                        nullptr, comm, nullptr, request)
               : sparclAllReduceMasked(send, held_.data(), plan_.count, type, op, mask_, nullptr,
                                       nullptr, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    if (result == sparclSuccess && report.nnz_out != indices_.size())
      wrong += fmt::format("nnz_out is {}; ", report.nnz_out);
    if (!held_.holds(result == sparclSuccess ? after() : before_)) wrong += "recvbuff is another; ";
    return wrong;
  }

  std::string describe() const override {
    return fmt::format("AllReduceMasked, {} of {} elements of type {}, op {}, mask kind {}{}{}",
                       indices_.size(), plan_.count, static_cast<int>(type_), static_cast<int>(op_),
                       static_cast<int>(plan_.kind), in_place_ ? ", in place" : "",
                       name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  bool is_odd(Slip slip) const { return roles_.slip == slip && scene_.rank == roles_.odd; }

  void draw_mask_indices() {
    mask_ = plan_.make();
    std::size_t entries = 0;
    (void)sparclMaskGetIndices(mask_, nullptr, 0, &entries);
    indices_.resize(entries);
    (void)sparclMaskGetIndices(mask_, indices_.data(), entries, &entries);
  }

  void settle_slip() {
    if (roles_.slip == Slip::kNull && indices_.empty()) roles_.slip = Slip::kNone;
    expected_ = roles_.slip == Slip::kNone   ? sparclSuccess
                : roles_.slip == Slip::kNull ? sparclInvalidArgument
                                             : sparclMismatch;
    if (!is_odd(Slip::kMask)) return;
    MaskPlan other = plan_;
    other.kind = MaskKind::kIndices;
    other.indices = indices_;
    if (plan_.kind == MaskKind::kIndices) other.kind = MaskKind::kRandom;
    (void)sparclMaskDestroy(mask_);
    mask_ = other.make();
  }

  ByteList after() const {
    ByteList after = before_;
    with_accumulator(type_, [&](auto zero) {
      using A = decltype(zero);
      const std::size_t width = width_of(type_);
      std::vector<std::optional<A>> by_rank(given_.size());
      for (const std::uint64_t i : indices_) {
        for (std::size_t r = 0; r < given_.size(); ++r)
          by_rank[r] = widened<A>(type_, given_[r].data() + i * width);
        const A sum = *over_ranks<A>(op_, type_, by_rank);
        write_result(op_, type_, sum, given_.size(), after.data() + i * width);
      }
    });
    return after;
  }

  Scene scene_;
  Roles roles_;
  sparclDataType_t type_;
  sparclRedOp_t op_;
  MaskPlan plan_;
  bool in_place_;
  std::vector<ByteList> given_;  // by rank
  ByteList before_;
  Fenced held_;
  sparclMask_t mask_ = nullptr;
  std::vector<std::uint64_t> indices_;
  sparclResult_t expected_ = sparclSuccess;
};

}  // namespace

std::unique_ptr<RandomFlight> random_masked(const Scene& scene, SeededRandom& random) {
  return std::make_unique<MaskedFlight>(scene, random);
}

}  // namespace sparcl::test
