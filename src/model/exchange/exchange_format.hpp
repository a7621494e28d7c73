#pragma once
// The layouts in which other programs exchange changes (docs/reference/exchange-formats.md). Each
// is one file and one row of the table.

#include <span>
#include <string_view>
#include <vector>

#include "src/model/exchange/sparse_change.hpp"
#include "src/model/exchange/tensor_file.hpp"

namespace sparcl::model {

struct ExchangeFormat {
  const char* name;
  const char* summary;
  int zstd_level;  // of the whole file; 0: none
  // Has this file this layout? (Readers accept it wrapped or not.)
  bool (*is_it)(const TensorFile& file);
  // Untrusted input: refused with the reason. The files of a folder are read one after the other
  // into one change.
  Status (*read)(const TensorFile& file, SparseChange& change);
  // One file, or one for each data type if the layout allows only one. Shapes are known.
  Result<std::vector<TensorFile>> (*write)(const SparseChange& change);
};

extern const ExchangeFormat kCooFormat;
extern const ExchangeFormat kCooZstdFormat;
extern const ExchangeFormat kIndicesFormat;
extern const ExchangeFormat kDeltasFormat;
extern const ExchangeFormat kDeltasZstdFormat;

std::span<const ExchangeFormat* const> exchange_formats();
const ExchangeFormat* find_exchange_format(std::string_view name);

// The format of a file, or nullptr.
const ExchangeFormat* recognise(const TensorFile& file, bool is_packed);

// As PyTorch names it: "float8_e4m3fn".
std::string_view torch_name(DataType type);

// Common to all layouts: our own metadata keys, which other programs ignore.
void write_own_metadata(const SparseChange& change, Metadata& metadata);
Status read_own_metadata(const TensorFile& file, SparseChange& change);

}  // namespace sparcl::model
