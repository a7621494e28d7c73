#include <fmt/format.h>

#include <algorithm>

#include "tests/random/flight_roles.hpp"
#include "tests/random/scalar_sums.hpp"

namespace sparcl::test {
namespace {

// What one rank gives.
struct Entries {
  std::vector<std::uint64_t> indices;
  ByteList values;
};

// Where the entries of all ranks lie: a window of the index space, more or less densely filled.
struct EntryPlan {
  std::uint64_t count = 0, first = 0, window = 0;
  std::size_t most = 0;  // of a rank
  bool same_on_all = false, sorted = true;
};

EntryPlan draw_entries(SeededRandom& random) {
  constexpr std::array<std::uint64_t, 5> kSpread{1, 2, 20, 1'000, 1'000'000};
  EntryPlan plan;
  plan.most = random.chance(0.3) ? random.below(60) : draw_sum_count(random) / 2;
  plan.count = random.chance(0.5) ? plan.most * pick(kSpread, random)
                                  : random.next() >> (1 + random.below(60));
  plan.window = std::min<std::uint64_t>(plan.count, plan.most * pick(kSpread, random));
  if (plan.window < plan.count) plan.first = random.below(plan.count - plan.window + 1);
  if (random.chance(0.1)) plan.first = plan.count - plan.window;  // up to the last index
  plan.same_on_all = random.chance(0.15);
  plan.sorted = random.chance(0.7);
  return plan;
}

std::vector<std::uint64_t> draw_indices(const EntryPlan& plan, std::size_t entries, bool sorted,
                                        SeededRandom& random) {
  std::vector<std::uint64_t> indices;
  for (std::size_t i = 0; i < entries && plan.window > 0; ++i)
    indices.push_back(plan.first + random.below(plan.window));
  if (!sorted) return indices;
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

class SparseSumFlight final : public RandomFlight {
 public:
  SparseSumFlight(const Scene& scene, SeededRandom& random)
      : scene_(scene),
        roles_(scene, random,
               {Slip::kCount, Slip::kType, Slip::kOperator, Slip::kCapacity, Slip::kIndex,
                Slip::kNull}),
        type_(pick(kAllTypes, random)),
        op_(draw_op(type_, random)),
        plan_(draw_entries(random)) {
    // Else the order of a sum shows, which is the algorithm's.
    const auto style = scene.is_canonical ? static_cast<Style>(random.below(4)) : Style::kWhole;
    if (!scene.is_canonical && op_ == sparclProd) op_ = sparclSum;
    const std::uint64_t seed = random.next();
    for (int rank = 0; rank < scene.ranks; ++rank) given_.push_back(draw_rank(rank, style, seed));
    sum_up();
    capacity_ = sum_.indices.size() + (random.chance(0.5) ? 0 : random.below(10));
    settle_slip();
    out_values_ = Fenced(capacity_ * width_of(type_), random.below(4) * width_of(type_));
    out_indices_ = Fenced(capacity_ * sizeof(std::uint64_t));
  }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    const Entries& own = given_[static_cast<std::size_t>(scene_.rank)];
    auto* out_indices = reinterpret_cast<std::uint64_t*>(
        out_indices_.data());  // the fence is a multiple of its alignment
    const void* values = is_odd(Slip::kNull) ? nullptr : own.values.data();
    const sparclDataType_t type =
        is_odd(Slip::kType) ? (type_ == sparclUint8 ? sparclInt8 : sparclUint8) : type_;
    const sparclRedOp_t op =
        is_odd(Slip::kOperator) ? (op_ == sparclMax ? sparclMin : sparclMax) : op_;
    const std::size_t count = plan_.count + (is_odd(Slip::kCount) ? 1 : 0);
    return request != nullptr
               ? sparclIAllReduceSparse(values, own.indices.data(), own.indices.size(), count,
                                        out_values_.data(), out_indices, &nnz_, capacity_, type, op,
                                        nullptr, comm, nullptr, request)
               : sparclAllReduceSparse(values, own.indices.data(), own.indices.size(), count,
                                       out_values_.data(), out_indices, &nnz_, capacity_, type, op,
                                       nullptr, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    ByteList values(out_values_.bytes().size(), Fenced::kFill),
        indices(out_indices_.bytes().size(), Fenced::kFill);
    std::size_t nnz = kNoCount;
    if (result == sparclSuccess) {
      std::copy(sum_.values.begin(), sum_.values.end(), values.begin());
      if (!sum_.indices.empty())
        std::memcpy(indices.data(), sum_.indices.data(),
                    sum_.indices.size() * sizeof(std::uint64_t));
      if (report.nnz_out != sum_.indices.size())
        wrong += fmt::format("nnz_out is {}; ", report.nnz_out);
    }
    if (result == sparclSuccess || result == sparclTruncated) nnz = sum_.indices.size();
    if (nnz_ != nnz) wrong += fmt::format("out_nnz is {}, not {}; ", nnz_, nnz);
    if (!out_values_.holds(values)) wrong += "the values are others; ";
    if (!out_indices_.holds(indices)) wrong += "the indices are others; ";
    return wrong;
  }

  std::string describe() const override {
    std::size_t given = 0;
    for (const Entries& each : given_) given += each.indices.size();
    return fmt::format(
               "AllReduceSparse, {} of {} entries, {} elements, window {} from {}, type {}, op "
               "{}{}{}{}",
               sum_.indices.size(), given, plan_.count, plan_.window, plan_.first,
               static_cast<int>(type_), static_cast<int>(op_),
               plan_.same_on_all ? ", the same on all" : "", plan_.sorted ? "" : ", unsorted",
               name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  static constexpr std::size_t kNoCount = 4'711;

  bool is_odd(Slip slip) const { return roles_.slip == slip && scene_.rank == roles_.odd; }

  Entries draw_rank(int rank, Style style, std::uint64_t seed) const {
    SeededRandom own(mix64(seed + static_cast<std::uint64_t>(rank))), shared(seed);
    const double size = own.unit();
    const std::size_t entries = size < 0.15  ? 0
                                : size < 0.3 ? std::min<std::size_t>(plan_.most, 3)
                                             : plan_.most;
    const bool sorted =
        plan_.sorted || own.chance(0.5);  // not all of those that may be unsorted are
    Entries given;
    given.indices = plan_.same_on_all ? draw_indices(plan_, plan_.most, plan_.sorted, shared)
                                      : draw_indices(plan_, entries, sorted, own);
    given.values = make_values(type_, given.indices.size(), style, own);
    return given;
  }

  void sum_up() {
    with_accumulator(type_, [&](auto zero) {
      using A = decltype(zero);
      const std::size_t width = width_of(type_);
      std::vector<std::array<std::uint64_t, 3>> order;  // index, rank, place
      for (std::size_t r = 0; r < given_.size(); ++r) {
        for (std::size_t i = 0; i < given_[r].indices.size(); ++i)
          order.push_back({given_[r].indices[i], r, i});
      }
      std::sort(order.begin(), order.end());
      std::vector<std::optional<A>> by_rank(given_.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto& [index, rank, place] = order[i];
        const A value = widened<A>(type_, given_[rank].values.data() + place * width);
        by_rank[rank] = by_rank[rank] ? combined(op_, type_, *by_rank[rank], value) : value;
        if (i + 1 < order.size() && order[i + 1][0] == index) continue;
        sum_.indices.push_back(index);
        sum_.values.resize(sum_.indices.size() * width);
        write_result(op_, type_, *over_ranks<A>(op_, type_, by_rank), given_.size(),
                     sum_.values.data() + sum_.values.size() - width);
        std::fill(by_rank.begin(), by_rank.end(), std::nullopt);
      }
    });
  }

  void settle_slip() {
    std::vector<std::uint64_t>& odd_indices = given_[static_cast<std::size_t>(roles_.odd)].indices;
    const bool needs_entries = roles_.slip == Slip::kIndex || roles_.slip == Slip::kNull;
    if ((needs_entries && odd_indices.empty()) ||
        (roles_.slip == Slip::kCapacity && sum_.indices.empty()))
      roles_.slip = Slip::kNone;
    if (is_odd(Slip::kIndex)) odd_indices.back() = plan_.count;
    if (is_odd(Slip::kCapacity)) capacity_ = sum_.indices.size() - 1;
    expected_ = roles_.slip == Slip::kNone                                  ? sparclSuccess
                : roles_.slip == Slip::kCapacity                            ? sparclTruncated
                : roles_.slip == Slip::kIndex || roles_.slip == Slip::kNull ? sparclInvalidArgument
                                                                            : sparclMismatch;
  }

  Scene scene_;
  Roles roles_;
  sparclDataType_t type_;
  sparclRedOp_t op_;
  EntryPlan plan_;
  std::vector<Entries> given_;  // by rank
  Entries sum_;
  std::size_t capacity_ = 0, nnz_ = kNoCount;
  Fenced out_values_, out_indices_;
  sparclResult_t expected_ = sparclSuccess;
};

}  // namespace

std::unique_ptr<RandomFlight> random_sparse_sum(const Scene& scene, SeededRandom& random) {
  return std::make_unique<SparseSumFlight>(scene, random);
}

}  // namespace sparcl::test
