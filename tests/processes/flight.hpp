#pragma once
// One collective of a series on one rank: its buffers, its call, and what is in them afterwards.

#include <memory>
#include <string>

#include "tests/processes/step_series.hpp"

namespace sparcl::test {

// What this rank does otherwise than the others.
enum class Deviation { kNone, kOperation, kCount, kDatatype, kRoot };

enum class Holds { kOld, kNew, kBoth, kNeither };  // kBoth: the step changes nothing
const char* name_of(Holds holds);

// The array of the deltas, or the tensors of the updates: what this rank holds, and what all agree
// it should.
struct Model {
  Model(StepKind kind, std::uint64_t series);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::vector<TensorShape> shapes;
  std::vector<ByteList> agreed, held;
  sparclState_t state = nullptr;  // of updates only
  std::uint64_t version = 0;
};

// What top-k has not sent yet: this rank's feedback, which outlives communicators, and what every
// rank's must hold.
struct Residuals {
  Residuals(std::uint64_t series, int ranks);
  ~Residuals();
  Residuals(const Residuals&) = delete;
  Residuals& operator=(const Residuals&) = delete;

  std::vector<std::int64_t> own() const;  // as the feedback has it
  // After an error the ranks know their own alone: on another communicator they tell each other.
  sparclResult_t meet_again(sparclComm_t comm, int rank, int ranks);

  std::uint64_t count;
  std::vector<std::vector<std::int64_t>> by_rank;
  sparclFeedback_t feedback = nullptr;
};

// Errors that end the communicator.
inline bool poisons(sparclResult_t result) {
  return result == sparclSystemError || result == sparclRemoteError || result == sparclTimeout;
}

// What steps work on.
struct Holdings {
  Holdings(std::uint64_t series, Residuals& given)
      : array(StepKind::kDelta, series), model(StepKind::kUpdate, series), residuals(given) {}
  Model array, model;
  Residuals& residuals;
};

class Flight {
 public:
  virtual ~Flight() = default;
  // Blocking with request nullptr.
  virtual sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) = 0;
  // Once it is over: looks at what this rank holds, and makes it what all agree upon if the step
  // was not applied by agreement.
  virtual Holds judge(sparclResult_t result) = 0;
  virtual std::uint64_t hash() const = 0;
};

std::unique_ptr<Flight> make_flight(const Step& step, int rank, int ranks, Holdings& held,
                                    Deviation deviation);

}  // namespace sparcl::test
