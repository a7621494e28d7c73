#pragma once
// One random collective on one rank: drawn from a seed that all ranks have, so that each knows by
// itself what all must hold after it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/random/values.hpp"

namespace sparcl::test {

// Of a communicator: what its ranks go by.
struct Scene {
  int rank = 0, ranks = 1;
  bool checks_base = true;   // verify is not off
  bool is_canonical = true;  // sums of sparse vectors
  std::string sum_algorithm = "auto";
};

struct ArrayPlan {
  sparclDataType_t datatype = sparclFloat32;
  std::size_t count = 0;
  Style style = Style::kBits;
  std::size_t offset = 0;  // elements
};
ArrayPlan draw_array(SeededRandom& random);

// An array, or a model's tensor: what this rank holds, what all agree that they hold, and what the
// root sends next.
struct HeldArray {
  HeldArray(const ArrayPlan& plan, SeededRandom& random);
  ArrayPlan plan;
  Fenced held;
  ByteList agreed, next;
  std::vector<std::uint64_t> changed;  // where next is not as agreed

  void draw_next(double share, SeededRandom& random);
};

struct HeldModel {
  HeldModel(int tensors, SeededRandom& random);
  ~HeldModel();
  HeldModel(const HeldModel&) = delete;
  HeldModel& operator=(const HeldModel&) = delete;

  std::vector<HeldArray> tensors;
  sparclState_t state = nullptr;
  std::uint64_t version = 0;
  int confirmed_root = -1;  // whose last update the ranks of this communicator hold
};

// An error feedback of this rank, and what all ranks' must hold.
struct HeldFeedback {
  HeldFeedback(const Scene& scene, SeededRandom& random);
  ~HeldFeedback();
  HeldFeedback(const HeldFeedback&) = delete;
  HeldFeedback& operator=(const HeldFeedback&) = delete;

  void mind(SeededRandom& random);  // now and then it is reset, or saved and loaded again
  std::string compare() const;      // empty, or what is wrong with this rank's

  std::size_t rank;
  sparclDataType_t datatype;
  std::size_t count;
  Style style;  // of the calls' inputs
  sparclFeedback_t feedback = nullptr;
  std::vector<ByteList> residuals;  // by rank: accumulators
  std::uint64_t calls = 0;          // since it was made, loaded or reset
};

class RandomFlight {
 public:
  virtual ~RandomFlight() = default;
  // Blocking with request nullptr.
  virtual sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) = 0;
  // Once it is over: empty, or what is wrong. Brings this rank to what all agree upon.
  virtual std::string judge(sparclResult_t result, const sparclReport_t& report) = 0;
  virtual std::string describe() const = 0;
  virtual sparclResult_t expected() const = 0;
};

// Each draws alike on all ranks. Now and then a rank does something wrong: then all must refuse,
// with the same code.
std::unique_ptr<RandomFlight> random_delta(const Scene& scene, HeldArray& array,
                                           SeededRandom& random);
std::unique_ptr<RandomFlight> random_update(const Scene& scene, HeldModel& model,
                                            SeededRandom& random);
std::unique_ptr<RandomFlight> random_sparse(const Scene& scene, SeededRandom& random);
std::unique_ptr<RandomFlight> random_masked(const Scene& scene, SeededRandom& random);
std::unique_ptr<RandomFlight> random_sparse_sum(const Scene& scene, SeededRandom& random);
std::unique_ptr<RandomFlight> random_top_k(const Scene& scene, HeldFeedback& held,
                                           SeededRandom& random);

}  // namespace sparcl::test
