#include "collectives/group/version_round.hpp"

#include <memory>

#include "src/comm/start/small_gather.hpp"

namespace sparcl::collectives::group {
namespace {

constexpr std::uint8_t kGatherLane = kAgreementLane + 1;

class Round final : public CallBody {
 public:
  Round(const CommContext& comm, std::uint32_t number, VersionRound& round)
      : comm_(comm), number_(number), round_(round) {}

  CallTerms terms() override {
    CallTerms terms;
    terms.fingerprint.operation = static_cast<std::uint32_t>(CallKind::kSubscriberNextGroup);
    terms.fingerprint.detail = round_.own.size();
    terms.refusal = round_.refusal;
    return terms;
  }

  Task run(const Extents&) override {
    Task gathering =
        comm::small_gather(*comm_.engine, {number_, kGatherLane}, round_.own, round_.all);
    const Status status = co_await gathering;
    co_return status;
  }

  std::uint8_t lanes() const override { return kGatherLane + 1; }

 private:
  const CommContext& comm_;
  std::uint32_t number_;
  VersionRound& round_;
};

}  // namespace

const CollectiveDescriptor kSubscriberNextGroup{CallKind::kSubscriberNextGroup,
                                                "sparclSubscriberNextGroup"};

Task version_round(const CommContext& comm, std::uint32_t number, VersionRound& round,
                   CallReport& report) {
  return agreed_call(comm, number, std::make_unique<Round>(comm, number, round), report);
}

}  // namespace sparcl::collectives::group
