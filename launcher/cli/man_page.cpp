// Prints mnlaunch(1) for the build to install.
#include <iostream>

#include "cli/options.hpp"

int main() { std::cout << mn::launcher::manual_page(); }
