// Prints mnlaunch's manual page, which the build installs.
#include <iostream>

#include "cli/options.hpp"

int main() { std::cout << mn::launcher::manual_page(); }
