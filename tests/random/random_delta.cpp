#include <fmt/format.h>

#include "tests/random/flight_roles.hpp"

namespace sparcl::test {
namespace {

class DeltaFlight final : public RandomFlight {
 public:
  DeltaFlight(const Scene& scene, HeldArray& array, SeededRandom& random)
      : scene_(scene),
        array_(array),
        roles_(scene, random, {Slip::kRoot, Slip::kCount, Slip::kType, Slip::kBase}),
        share_(pick(kShares, random)) {
    array_.draw_next(share_, random);
    has_base_ = !random.chance(0.1);
    const bool is_odd = scene.rank == roles_.odd;
    // Slips that would be none.
    if (roles_.slip == Slip::kCount && array_.plan.count == 0) roles_.slip = Slip::kNone;
    const bool can_spoil = has_base_ && scene.checks_base && roles_.odd != roles_.root &&
                           !array_.changed.empty() && share_ < kCheckedShare;
    if (roles_.slip == Slip::kBase && !can_spoil) roles_.slip = Slip::kNone;
    expected_ = roles_.slip == Slip::kNone   ? sparclSuccess
                : roles_.slip == Slip::kBase ? sparclWrongBase
                                             : sparclMismatch;

    array_.held.set(scene.rank == roles_.root ? array_.next : array_.agreed);
    if (roles_.slip == Slip::kBase && is_odd) spoil(array_);
    before_.assign(array_.held.bytes().begin(), array_.held.bytes().end());
    base_ = array_.agreed;
    root_ = roles_.slip == Slip::kRoot && is_odd ? roles_.another_root(scene) : roles_.root;
    count_ = array_.plan.count - (roles_.slip == Slip::kCount && is_odd ? 1 : 0);
    type_ = array_.plan.datatype;
    if (roles_.slip == Slip::kType && is_odd)
      type_ = type_ == sparclUint8 ? sparclInt8 : sparclUint8;
  }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    const void* base = has_base_ ? base_.data() : nullptr;
    return request != nullptr ? sparclIBroadcastDelta(array_.held.data(), base, count_, type_,
                                                      root_, nullptr, comm, nullptr, request)
                              : sparclBroadcastDelta(array_.held.data(), base, count_, type_, root_,
                                                     nullptr, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    if (!array_.held.holds(result == sparclSuccess ? array_.next : before_))
      wrong += "the array holds something else; ";
    const bool is_dense = std::string_view(report.algorithm) == "dense";
    const std::size_t reported = is_dense ? array_.plan.count : array_.changed.size();
    if (result == sparclSuccess && has_base_ && report.nnz_out != reported)
      wrong += fmt::format("{} changes are reported; ", report.nnz_out);
    if (expected_ == sparclSuccess) array_.agreed = array_.next;
    array_.held.set(array_.agreed);
    return wrong;
  }

  std::string describe() const override {
    return fmt::format("BroadcastDelta, {} elements of type {}, {} changed, root {}{}{}",
                       array_.plan.count, static_cast<int>(array_.plan.datatype),
                       array_.changed.size(), roles_.root, has_base_ ? "" : ", no base",
                       name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  Scene scene_;
  HeldArray& array_;
  Roles roles_;
  double share_;
  bool has_base_ = true;
  ByteList before_, base_;
  int root_ = 0;
  std::size_t count_ = 0;
  sparclDataType_t type_ = sparclFloat32;
  sparclResult_t expected_ = sparclSuccess;
};

}  // namespace

std::unique_ptr<RandomFlight> random_delta(const Scene& scene, HeldArray& array,
                                           SeededRandom& random) {
  return std::make_unique<DeltaFlight>(scene, array, random);
}

}  // namespace sparcl::test
