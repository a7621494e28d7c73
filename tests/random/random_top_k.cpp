#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tests/random/flight_roles.hpp"
#include "tests/random/top_k_oracle.hpp"

namespace sparcl::test {
namespace {

constexpr std::array kTopKTypes{sparclFloat64,    sparclFloat32, sparclFloat32, sparclFloat16,
                                sparclBfloat16,   sparclInt32,   sparclInt64,   sparclFloat8e4m3,
                                sparclFloat8e5m2, sparclUint32,  sparclUint64};
constexpr std::array kSumAlgorithms{"auto", "gather", "doubling", "split", "two_level"};

// The call's arguments, the same on all ranks but for slips.
struct TopKArguments {
  std::size_t count = 0, k = 0;
  sparclDataType_t datatype = sparclFloat32;
  sparclRedOp_t op = sparclSum;
  sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
};

TopKArguments draw_arguments(const Scene& scene, const HeldFeedback& held, SeededRandom& random) {
  TopKArguments given;
  given.count = held.count;
  given.datatype = held.datatype;
  const auto share =
      static_cast<std::size_t>(static_cast<double>(held.count) * pick(kShares, random));
  given.k = random.chance(0.1)   ? held.count
            : random.chance(0.2) ? std::min<std::size_t>(random.below(3), held.count)
                                 : share;
  given.op = random.chance(0.3) ? sparclAvg : sparclSum;
  given.options.mode = static_cast<sparclTopKMode_t>(random.below(3));
  given.options.reuse_threshold = random.chance(0.3) ? sparclOn : sparclOff;
  given.options.wire =
      random.chance(0.5) ? static_cast<sparclWire_t>(random.below(5)) : sparclWireSame;
  if (random.chance(0.5)) given.options.algorithm = pick(kSumAlgorithms, random);
  given.options.determinism = static_cast<sparclDeterminism_t>(random.below(4));
  // Else the order of a sum shows, which is the algorithm's.
  const bool is_canonical = given.options.determinism == sparclDeterminismDefault
                                ? scene.is_canonical
                                : given.options.determinism == sparclDeterminismCanonical;
  if (!is_canonical && held.style != Style::kWhole)
    given.options.determinism = sparclDeterminismCanonical;
  return given;
}

class TopKFlight final : public RandomFlight {
 public:
  TopKFlight(const Scene& scene, HeldFeedback& held, SeededRandom& random)
      : scene_(scene),
        held_(held),
        roles_(scene, random,
               {Slip::kCount, Slip::kType, Slip::kOperator, Slip::kOption, Slip::kNull,
                Slip::kFeedback}),
        given_(draw_arguments(scene, held, random)) {
    held_.mind(random);
    const std::uint64_t seed = random.next(), with = random.below(8);
    for (int rank = 0; rank < scene.ranks; ++rank) {
      SeededRandom own(mix64(seed + static_cast<std::uint64_t>(rank)));
      values_.push_back(make_values(held.datatype, held.count, held.style, own));
      has_feedback_.push_back(with == 0 ? false : with == 1 ? own.chance(0.5) : true);
    }
    in_place_ = random.chance(0.5);
    const ByteList& mine = values_[own_place()];
    before_ = in_place_ ? mine : ByteList(mine.size(), 0x5a);
    received_ = Fenced(mine.size(), random.below(4) * width_of(held.datatype));
    received_.set(before_);
    mine_ = given_;
    settle_slip(random.below(5));
  }
  ~TopKFlight() override { (void)sparclFeedbackDestroy(other_); }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    const void* send = in_place_ ? received_.data() : values_[own_place()].data();
    if (roles_.slip == Slip::kNull && is_odd()) send = nullptr;
    const sparclFeedback_t feedback = other_ != nullptr            ? other_
                                      : has_feedback_[own_place()] ? held_.feedback
                                                                   : nullptr;
    return request != nullptr
               ? sparclIAllReduceTopK(send, received_.data(), mine_.count, mine_.k, mine_.datatype,
                                      mine_.op, feedback, &mine_.options, comm, nullptr, request)
               : sparclAllReduceTopK(send, received_.data(), mine_.count, mine_.k, mine_.datatype,
                                     mine_.op, feedback, &mine_.options, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    if (result != sparclSuccess) {
      if (!received_.holds(before_)) wrong += "recvbuff was written; ";
      return wrong + held_.compare();
    }
    std::vector<ByteList> residuals = held_.residuals;
    for (std::size_t r = 0; r < residuals.size(); ++r) {
      if (!has_feedback_[r]) residuals[r].clear();
    }
    const TopKRule rule{given_.datatype, given_.op == sparclAvg, given_.options.mode,
                        given_.options.wire, given_.k};
    const TopKOutcome outcome = top_k_of(rule, values_, residuals);
    for (std::size_t r = 0; r < residuals.size(); ++r) {
      if (has_feedback_[r]) held_.residuals[r] = std::move(residuals[r]);
    }
    if (!received_.holds(outcome.received)) wrong += "recvbuff is another; ";
    if (report.nnz_in != outcome.selected[own_place()])
      wrong += fmt::format("nnz_in is {}; ", report.nnz_in);
    if (report.nnz_out != outcome.kept)
      wrong += fmt::format("nnz_out is {}, not {}; ", report.nnz_out, outcome.kept);
    if (has_feedback_[own_place()]) wrong += wrong_stats(outcome.selected[own_place()]);
    return wrong + held_.compare();
  }

  std::string describe() const override {
    const sparclTopKOptions_t& options = given_.options;
    return fmt::format(
               "AllReduceTopK, {} of {} elements of type {}, style {}, op {}, mode {}, wire {}, "
               "determinism {}, algorithm {}{}{}{}",
               given_.k, given_.count, static_cast<int>(given_.datatype),
               static_cast<int>(held_.style), static_cast<int>(given_.op),
               static_cast<int>(options.mode), static_cast<int>(options.wire),
               static_cast<int>(options.determinism),
               options.algorithm != nullptr ? options.algorithm : "of the setting",
               has_feedback_[own_place()] ? ", feedback" : "", in_place_ ? ", in place" : "",
               name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  std::size_t own_place() const { return static_cast<std::size_t>(scene_.rank); }
  bool is_odd() const { return scene_.rank == roles_.odd; }

  void settle_slip(std::uint64_t which) {
    const bool needs_elements =
        roles_.slip == Slip::kCount || roles_.slip == Slip::kNull || roles_.slip == Slip::kOption;
    const bool is_ignored =
        roles_.slip == Slip::kOption && which == 4 && given_.options.mode == sparclTopKUnion;
    if ((needs_elements && given_.count == 0) || is_ignored) roles_.slip = Slip::kNone;
    // An odd rank's feedback is not of the odd call's array: then that is what it is refused for.
    const bool refuses = roles_.slip == Slip::kNull || roles_.slip == Slip::kFeedback ||
                         (roles_.slip == Slip::kCount && given_.k == given_.count) ||
                         (has_feedback_[static_cast<std::size_t>(roles_.odd)] &&
                          (roles_.slip == Slip::kCount || roles_.slip == Slip::kType));
    expected_ = roles_.slip == Slip::kNone ? sparclSuccess
                : refuses                  ? sparclInvalidArgument
                                           : sparclMismatch;
    if (!is_odd()) return;
    if (roles_.slip == Slip::kCount) --mine_.count;
    if (roles_.slip == Slip::kType)
      mine_.datatype = given_.datatype == sparclFloat8e4m3 ? sparclFloat8e5m2 : sparclFloat8e4m3;
    if (roles_.slip == Slip::kOperator) mine_.op = given_.op == sparclSum ? sparclAvg : sparclSum;
    if (roles_.slip == Slip::kFeedback)
      (void)sparclFeedbackCreate(&other_, given_.count + 1, given_.datatype);
    if (roles_.slip == Slip::kOption) change_option(which);
  }

  void change_option(std::uint64_t which) {
    const std::string_view algorithm =
        given_.options.algorithm != nullptr ? given_.options.algorithm : scene_.sum_algorithm;
    const int determinism = given_.options.determinism;
    const bool is_canonical = determinism == sparclDeterminismDefault
                                  ? scene_.is_canonical
                                  : determinism == sparclDeterminismCanonical;
    if (which == 0) mine_.k = given_.k < given_.count ? given_.k + 1 : given_.count - 1;
    if (which == 1)
      mine_.options.mode = static_cast<sparclTopKMode_t>((given_.options.mode + 1) % 3);
    if (which == 2) mine_.options.wire = static_cast<sparclWire_t>((given_.options.wire + 1) % 5);
    if (which == 3)
      mine_.options.determinism = is_canonical ? sparclDeterminismRuns : sparclDeterminismCanonical;
    if (which == 4) mine_.options.algorithm = algorithm == "gather" ? "split" : "gather";
  }

  std::string wrong_stats(std::size_t selected) {
    sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
    if (sparclFeedbackStats(held_.feedback, &stats) != sparclSuccess) return "no statistics; ";
    ++held_.calls;
    if (stats.calls != held_.calls)
      return fmt::format("statistics of {} calls, not {}; ", stats.calls, held_.calls);
    return stats.selected == selected
               ? ""
               : fmt::format("statistics have {} selected elements, not {}; ", stats.selected,
                             selected);
  }

  Scene scene_;
  HeldFeedback& held_;
  Roles roles_;
  TopKArguments given_, mine_;
  std::vector<ByteList> values_;  // by rank
  std::vector<bool> has_feedback_;
  bool in_place_ = false;
  ByteList before_;
  Fenced received_;
  sparclFeedback_t other_ = nullptr;
  sparclResult_t expected_ = sparclSuccess;
};

}  // namespace

HeldFeedback::HeldFeedback(const Scene& scene, SeededRandom& random)
    : rank(static_cast<std::size_t>(scene.rank)),
      datatype(pick(kTopKTypes, random)),
      count(draw_sum_count(random)),
      style(static_cast<Style>(random.below(4))) {
  (void)sparclFeedbackCreate(&feedback, count, datatype);
  residuals.assign(static_cast<std::size_t>(scene.ranks),
                   ByteList(count * residual_width(datatype)));
}

HeldFeedback::~HeldFeedback() { (void)sparclFeedbackDestroy(feedback); }

void HeldFeedback::mind(SeededRandom& random) {
  const double what = random.unit();
  if (what < 0.02) {
    (void)sparclFeedbackReset(feedback);
    for (ByteList& residual : residuals) std::fill(residual.begin(), residual.end(), 0);
    calls = 0;
  } else if (what < 0.04) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() /
        fmt::format("sparcl_random_{}_{}", ::getpid(), static_cast<void*>(this));
    sparclFeedback_t loaded = nullptr;
    if (sparclFeedbackSave(feedback, path.c_str()) == sparclSuccess)
      (void)sparclFeedbackLoad(&loaded, path.c_str());
    std::filesystem::remove(path);
    (void)sparclFeedbackDestroy(std::exchange(feedback, loaded));
    calls = 0;
  }
}

std::string HeldFeedback::compare() const {
  const void* residual = nullptr;
  std::size_t elements = 0;
  if (sparclFeedbackGetResidual(feedback, &residual, &elements, nullptr) != sparclSuccess)
    return "no residual; ";
  if (elements != count) return "the residual has another count; ";
  return std::equal(residuals[rank].begin(), residuals[rank].end(),
                    static_cast<const unsigned char*>(residual))
             ? ""
             : "the residual is another; ";
}

std::unique_ptr<RandomFlight> random_top_k(const Scene& scene, HeldFeedback& held,
                                           SeededRandom& random) {
  return std::make_unique<TopKFlight>(scene, held, random);
}

}  // namespace sparcl::test
