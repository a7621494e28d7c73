// A profiler of a few lines: NVTX loads it where NVTX_INJECTION64_PATH names it. Writes the names
// of ranges to the file that RANGE_RECORD names, one a line, and at the end how many were ended.

#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

std::FILE* record() {
  static std::FILE* const file = std::fopen(std::getenv("RANGE_RECORD"), "w");
  return file;
}
std::atomic<int> begun = 0, ended = 0;

nvtxRangeId_t on_begin(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  std::fprintf(record(), "%s\n", attributes->message.ascii);
  return static_cast<nvtxRangeId_t>(++begun);
}

void on_end(nvtxDomainHandle_t, nvtxRangeId_t) {
  if (++ended == begun) std::fflush(record());
}

nvtxDomainHandle_t on_domain(const char* name) {
  std::fprintf(record(), "domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(1);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&on_domain);
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(&on_begin);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(&on_end);
  return 1;
}
