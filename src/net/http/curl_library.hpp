#pragma once
// libcurl's functions, from a library that is loaded when first asked for.

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "src/base/status.hpp"

namespace sparcl::net {

struct CurlLibrary {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// From SPARCL_CURL_LIBRARY. Loaded once, for good. An error is not kept.
Result<const CurlLibrary*> load_curl();

}  // namespace sparcl::net
