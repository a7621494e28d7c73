#include "checkpoint_file.hpp"

#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace training {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little endian, and so are the arrays written here");

std::string header_of(const ParameterLayout& layout, const char* dtype, std::size_t element_bytes,
                      const Metadata& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  for (const TensorPlace& tensor : layout.tensors()) {
    const std::size_t begin = tensor.offset * element_bytes;
    header[tensor.name] = {{"dtype", dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + tensor.count * element_bytes}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void write_file(const std::filesystem::path& path, const std::string& header,
                std::span<const std::byte> body) {
  std::filesystem::create_directories(path.parent_path());
  const std::filesystem::path unfinished = path.string() + ".part";
  const std::uint64_t length = header.size();
  std::ofstream file(unfinished, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
  file.write(reinterpret_cast<const char*>(body.data()), static_cast<std::streamsize>(body.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + unfinished.string());
  std::filesystem::rename(unfinished, path);
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                      std::span<const sparcl::bfloat16> flat, const Metadata& metadata) {
  write_file(path, header_of(layout, "BF16", sizeof(sparcl::bfloat16), metadata),
             std::as_bytes(flat));
}

void write_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                      std::span<const float> flat, const Metadata& metadata) {
  write_file(path, header_of(layout, "F32", sizeof(float), metadata), std::as_bytes(flat));
}

}  // namespace training
