/* A library that sets the locale of the program that loads it. */
#include <locale.h>

__attribute__((constructor)) static void set_the_users_locale(void) { setlocale(LC_ALL, ""); }
