/* A plug-in of another build: its table must not be touched. */
#include <stdlib.h>

const char* sparclUcxPluginBuild(void);
const void* sparclUcxPluginTable(void);

const char* sparclUcxPluginBuild(void) { return "0.0.9-of-another-build"; }
const void* sparclUcxPluginTable(void) { abort(); }
