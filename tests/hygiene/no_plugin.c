/* A library that is no plug-in. */
int sparclTestNoPlugin(void);
int sparclTestNoPlugin(void) { return 0; }
