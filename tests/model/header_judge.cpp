// For scripts/compare-safetensors: reads headers of safetensors files from standard input (u32
// length, u64 bytes of data behind the header, the header), and writes '1' for each that is
// accepted, '0' for each that is not.
#include <cstdint>
#include <cstdio>
#include <string>

#include "src/model/safetensors_header.hpp"
#include "src/model/schema.hpp"

int main() {
  std::uint32_t length = 0;
  std::uint64_t bytes = 0;
  while (std::fread(&length, sizeof length, 1, stdin) == 1 &&
         std::fread(&bytes, sizeof bytes, 1, stdin) == 1) {
    std::string text(length, '\0');
    if (std::fread(text.data(), 1, length, stdin) != length) return 1;
    const sparcl::Result<sparcl::model::Header> header = sparcl::model::parse_header(text);
    const bool is_fit =
        header.ok() && header->data_bytes == bytes && sparcl::model::validate(header->tensors).ok();
    std::fputc(is_fit ? '1' : '0', stdout);
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
