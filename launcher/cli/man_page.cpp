// Prints mnlaunch(1); the build installs what this prints.
#include <iostream>

#include "cli/options.hpp"

int main() { std::cout << mn::launcher::manual_page(); }
