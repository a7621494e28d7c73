#include "collectives/broadcast/dense_arrays.hpp"

#include <algorithm>

namespace sparcl::collectives::broadcast {

DenseArrays::DenseArrays(const codec::BlockMap& map, std::span<std::byte* const> held,
                         const kernels::KernelSet& kernels)
    : kernels_(kernels) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    const std::uint64_t bytes = map.arrays()[i].bytes();
    if (bytes > 0) arrays_.push_back({bytes_, bytes_ + bytes, held[i]});
    bytes_ += bytes;
  }
}

template <class Use>
void DenseArrays::for_pieces(std::uint64_t first, std::size_t count, Use&& use) const {
  auto array = std::upper_bound(arrays_.begin(), arrays_.end(), first,
                                [](std::uint64_t at, const Array& each) { return at < each.end; });
  for (std::size_t done = 0; done < count; ++array) {
    const std::uint64_t at = first + done;
    const auto piece =
        static_cast<std::size_t>(std::min<std::uint64_t>(array->end - at, count - done));
    use(array->data + (at - array->first), done, piece);
    done += piece;
  }
}

std::byte* DenseArrays::piece(std::uint64_t first, std::size_t count) const {
  std::byte* found = nullptr;
  for_pieces(first, count, [&](std::byte* piece, std::size_t, std::size_t bytes) {
    found = bytes == count ? piece : nullptr;
  });
  return found;
}

void DenseArrays::read(std::uint64_t first, std::size_t count, kernels::Output output,
                       std::byte* out) const {
  for_pieces(first, count, [&](const std::byte* piece, std::size_t done, std::size_t bytes) {
    kernels_.entries.copy_bytes(piece, bytes, output, out + done);
  });
}

void DenseArrays::copy(std::uint64_t first, std::size_t count, const DenseArrays& to) const {
  for_pieces(first, count, [&](const std::byte* piece, std::size_t done, std::size_t bytes) {
    to.write(first + done, {piece, bytes}, kernels::Output::kStreamed);
  });
}

void DenseArrays::write(std::uint64_t first, std::span<const std::byte> bytes,
                        kernels::Output output) const {
  for_pieces(first, bytes.size(), [&](std::byte* piece, std::size_t done, std::size_t count) {
    kernels_.entries.copy_bytes(bytes.data() + done, count, output, piece);
  });
}

}  // namespace sparcl::collectives::broadcast
