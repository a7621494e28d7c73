// The head of a long message over MPI: nothing, or a body that has not gone with the head, on a tag
// that a body can have.

#include <algorithm>

#include "src/transport/mpi/head_format.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

constexpr int kLargestTag = 32'767;

void run(std::span<const std::byte> input) {
  Choices choices(input);
  const transport::HeadFormat format(choices.below(64));
  Bytes head(format.largest_head());
  std::copy_n(choices.rest().begin(), std::min(choices.rest().size(), head.size()), head.begin());
  const auto body = format.read(head.data(), kLargestTag);
  if (!body) return;
  require(!format.fits_eagerly(body->total_bytes), "a body has bytes that were not in the head");
  require(body->tag >= 1 && body->tag <= kLargestTag, "a body comes on a tag of its own");
  Bytes again(head.size());
  format.write(again.data(), head.data(), *body);
  require(again == head, "a head has one form");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const std::size_t eager : {0, 1, 8, 33}) {
    const transport::HeadFormat format(eager);
    const Bytes message(eager + 1, std::byte{7});
    Bytes head(format.largest_head());
    format.write(head.data(), message.data(), {message.size(), 5});
    head.insert(head.begin(), static_cast<std::byte>(eager));
    all.push_back(std::move(head));
  }
  return all;
}

const Registration registration({"mpi_head", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
