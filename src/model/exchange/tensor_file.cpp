#include "src/model/exchange/tensor_file.hpp"

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <memory>

#include "src/base/bytes.hpp"
#include "src/model/exchange/zstd_frame.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint32_t kZstdMagic = 0xfd2fb528;
constexpr std::uint64_t kMaxRatio =
    1024;  // lists of gaps shrink 10 times at most; zeros 10,000 times
constexpr std::uint64_t kAlwaysAllowed = std::uint64_t{16}
                                         << 20;  // for any ratio: small files may be all zeros
constexpr std::size_t kStepBytes = std::size_t{1} << 20;

bool is_out_of_memory(std::size_t zstd_result) {
  return ZSTD_getErrorCode(zstd_result) == ZSTD_error_memory_allocation;
}

Result<std::vector<std::byte>> unwrap(std::span<const std::byte> bytes) {
  const std::uint64_t limit = std::max(kAlwaysAllowed, bytes.size() * kMaxRatio);
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                        ZSTD_freeDCtx);
  if (context == nullptr) return no_memory();
  std::vector<std::byte> out;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::size_t left = 1;
  while (in.pos < in.size || left > 0) {
    const std::size_t before = out.size();
    out.resize(before + kStepBytes);
    ZSTD_outBuffer room{out.data() + before, kStepBytes, 0};
    const std::size_t read = in.pos;
    left = ZSTD_decompressStream(context.get(), &room, &in);
    out.resize(before + room.pos);
    if (is_out_of_memory(left)) return no_memory();
    if (ZSTD_isError(left) != 0)
      return corrupt(fmt::format("its zstd frame is damaged: {}", ZSTD_getErrorName(left)));
    if (out.size() > limit) return corrupt(fmt::format("it unpacks to more than {} bytes", limit));
    if (left > 0 && room.pos == 0 && in.pos == read) return corrupt("its zstd frame is cut off");
  }
  return out;
}

Status check_plain_begin(std::span<const std::byte> first, std::uint64_t file_bytes) {
  if (first.size() < kHeaderLengthBytes) return corrupt("it is too short for a safetensors file");
  const auto length = load_le<std::uint64_t>(first.data());
  if (length <= kMaxHeaderBytes && length <= file_bytes - kHeaderLengthBytes) return {};
  return corrupt(fmt::format("the header's length is {}: no safetensors file, or cut", length));
}

Result<TensorFile> parse_plain(std::span<const std::byte> bytes) {
  SPARCL_RETURN_IF_ERROR(check_plain_begin(bytes, bytes.size()));
  const auto length = static_cast<std::size_t>(load_le<std::uint64_t>(bytes.data()));
  const std::span<const std::byte> text = bytes.subspan(kHeaderLengthBytes, length);
  Result<Header> header = parse_header({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!header.ok()) return header.status();
  for (const TensorSchema& tensor : header->tensors) {
    if (!tensor.opaque) continue;
    return Status(
        Code::kUnsupported,
        fmt::format(
            "tensor {} is {}: changes of such types are exchanged by sparcl's own deltas only",
            in_quotes(tensor.name), describe_kind(tensor)));
  }
  const std::span<const std::byte> data = bytes.subspan(kHeaderLengthBytes + length);
  if (data.size() != header->data_bytes) {
    return corrupt(fmt::format("the tensors need {} bytes, but {} follow the header",
                               header->data_bytes, data.size()));
  }
  TensorFile file{"", std::move(header->tensors), std::move(header->metadata), {}};
  for (std::size_t i = 0; i < file.schema.size(); ++i) {
    const std::uint64_t end =
        i + 1 < file.schema.size() ? header->offsets[i + 1] : header->data_bytes;
    file.tensors.emplace_back(data.begin() + static_cast<std::ptrdiff_t>(header->offsets[i]),
                              data.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return file;
}

}  // namespace

const std::string* TensorFile::find_metadata(std::string_view key) const {
  return model::find_metadata(metadata, key);
}

bool is_zstd(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && load_le<std::uint32_t>(bytes.data()) == kZstdMagic;
}

Status check_begin_of_tensor_file(std::span<const std::byte> first, std::uint64_t file_bytes) {
  return is_zstd(first) ? Status() : check_plain_begin(first, file_bytes);
}

Result<TensorFile> parse_tensor_file(std::span<const std::byte> bytes) {
  if (!is_zstd(bytes)) return parse_plain(bytes);
  const Result<std::vector<std::byte>> plain = unwrap(bytes);
  return plain.ok() ? parse_plain(*plain) : plain.status();
}

Result<std::vector<std::byte>> serialise(const TensorFile& file, int zstd_level) {
  const std::string header = render_header(file.schema, file.metadata);
  ByteWriter writer;
  writer.write(static_cast<std::uint64_t>(header.size()));
  writer.write_bytes(std::as_bytes(std::span(header)));
  for (const std::vector<std::byte>& tensor : file.tensors) writer.write_bytes(tensor);
  if (zstd_level == 0) return writer.take();
  return pack_frame(writer.bytes(), zstd_level);
}

}  // namespace sparcl::model
