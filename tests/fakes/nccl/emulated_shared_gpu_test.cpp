// tests/hardware/shared_gpu_test over stand-ins for the driver and the kernels' launches: processes
// that meet over UCX.

#include "tests/fakes/nccl/gpu_ranks.hpp"
#include "tests/hardware/shared_gpu_checks.hpp"
#include "tests/hardware/shared_gpu_party.hpp"

namespace sparcl::test {
namespace {

template <class T>
class EmulatedArray : public OnDevice<T> {
 public:
  explicit EmulatedArray(const std::vector<T>& values) : OnDevice<T>(values) {}
  T* data() const { return this->get(); }
};

TEST(EmulatedRanksThatShareAGpu, GetTheBitsOfTheHostsWay) {
  for (const int ranks : {1, 2, 3}) expect_ranks_agree(ranks);
}

int check(sparclComm_t comm, int rank, int ranks) {
  const int copies = copies_made();
  const int failed = SharedGpuChecks<EmulatedArray>(comm, rank, ranks).run();
  return copies_made() == copies ? 1 : failed;  // else it was no device memory
}

}  // namespace
}  // namespace sparcl::test

int main(int argc, char** argv) {
  return sparcl::test::main_of_ranks(argc, argv, sparcl::test::check);
}
