#pragma once

namespace sparcl::tool {

// From now on SIGINT, SIGTERM and SIGHUP remove unfinished output before they end the process, as they would have. Call it before
// any other thread starts. SIGXFSZ becomes an error of the write.
void clean_up_on_signals();

}  // namespace sparcl::tool
